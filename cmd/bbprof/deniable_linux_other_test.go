//go:build linux && !amd64

package main

// deniable is empty where bbprof does not measure: the calls of the tests are those of amd64.
var deniable map[string]uint32
