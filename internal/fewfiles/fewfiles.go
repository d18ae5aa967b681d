// Package fewfiles ends a process that may have hardly any file open, and says so. It does that
// when it is initialised: other packages that bbprof is made of start timers and open files in
// their own initialisation (protobuf and hashprobe, which Parquet needs), where Go's runtime
// crashes if it can open none for itself. Packages are initialised in the order of their paths, as
// far as their imports allow (Go specification, "Package initialization"), and this one imports
// next to nothing.
package fewfiles
