package asm

import "testing"

// BenchmarkCorpusBlock is what a typical block costs: decoding, refusal and state.
func BenchmarkCorpusBlock(b *testing.B) {
	blocks := corpus(b)[:1000]
	Decode(blocks[0]) // builds the tables
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		insts, err := Decode(blocks[i%len(blocks)])
		if err == nil && Refuse(insts) == nil {
			StateOf(insts)
		}
		i++
	}
}

// BenchmarkTables is what the first block pays on top.
func BenchmarkTables(b *testing.B) {
	for b.Loop() {
		buildTables()
	}
}
