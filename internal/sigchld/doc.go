// Package sigchld suppresses the SIGCHLD signals of traced children's stops, which disturb measurements.
package sigchld
