//go:build !unix

package cli

func IgnoreFileLimit() {}
