// Package instructions measures latency and throughput of instruction forms. A [Plan] turns a form into
// blocks, [Measure] has them measured like any other block, many at a time, and makes a [Row] of each
// form's.
//
// A latency is that of a chain: a block whose instructions wait for each other by way of one source and
// one destination, while all else is the same in every iteration. If both are registers of one class, the
// instruction is its own successor. If they are not, other instructions (bridges) bring the result back;
// their latency is measured too and subtracted. There and back are indistinguishable, so that of a round
// trip each bridge has half.
//
// A throughput is that of instructions whose destinations are all different and no source of another.
// Where the instruction itself makes them wait (flags, rax, a merged destination), a second block holds
// an instruction that breaks the dependency, and the faster one counts.
package instructions
