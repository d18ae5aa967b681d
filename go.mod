module github.com/bbprof/bbprof

go 1.26.0

require golang.org/x/arch v0.32.0

require (
	github.com/google/go-cmp v0.7.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
