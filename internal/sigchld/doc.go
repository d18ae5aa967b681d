// Package sigchld keeps the signals of traced children from those who measure.
package sigchld
