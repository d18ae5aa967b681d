//go:build !linux || !amd64

package main

// becomeHost has no hosts to make.
func becomeHost() {}
