// Package instructions measures latency and throughput of instruction forms. A [Plan] turns a form into blocks,
// [Measure] has them measured like any others, many at a time, and makes a [Row] per form.
//
// A latency comes from a chain: a block whose instructions wait for each other through one source and one destination,
// with all else equal in every iteration. If both are registers of one class, the instruction is its own successor.
// Otherwise other instructions (bridges) bring the result back; their latency is measured too and subtracted. The two
// halves of a round trip cannot be told apart, so each bridge gets half.
//
// A throughput comes from instructions with different destinations, none of which is a source. If the instruction itself
// makes its successor wait (flags, rax, a merged destination), a second block breaks the dependency, and the faster one
// counts.
package instructions
