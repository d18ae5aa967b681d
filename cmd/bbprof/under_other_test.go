//go:build !linux

package main

import "os"

// under needs Linux.
func under() { os.Exit(125) }
