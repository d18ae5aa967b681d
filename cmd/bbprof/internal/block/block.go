// Package block implements the main job, bbprof -hex.
package block

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/assemble"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/modelflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/profiler"
)

func Command() *cli.Command {
	return &cli.Command{
		Summary:  "measure one block",
		Synopsis: []string{"[flags] -hex HEX", "[flags] -asm TEXT", "COMMAND [flags] ...  (bbprof COMMAND -h)"},
		About: `bbprof measures how many core cycles a basic block of x86-64 code takes per iteration at
steady state, with all its data and code in the first-level caches, or says why it cannot.
Where other work on the machine is in the way, it tries three times, and on a busy core for 5 s.
`,
		Examples: `bbprof -hex 4801c0                         add rax, rax
bbprof -asm 'add rax, rbx; imul rcx, rax'  the same from assembly
bbprof -asm '1: add rax, rbx; dec rcx; jnz 1b'     a loop, as it runs
bbprof -model llvm-mca-22 -hex 480fafc0    and what a model predicts
bbprof -v -hex '48 8b 03 48 01 d8'         with spaces, and the listing
bbprof -state gzip.states#17               a block in the state in which gzip reached it
echo 4801c0 | bbprof -json -hex - | jq .cycles
`,
		Exits: cli.Exits("measured", "the block is rejected; the report says why", map[int]string{cli.ExitInterrupted: "interrupted"}),
		Setup: func(f *cli.Flags) func(cli.Streams) error {
			m := measureBlock{out: cli.Output{}}
			m.block.Memory, m.opts.Inner = &m.opts.Memory, true
			m.block.Add(f)
			f.Text(&m.state, "state", "FILE", "FILE#N: start from the state in which a program reached the block, the Nth of those that bbprof capture "+
				"wrote to FILE. Without -hex, the block of that visit")
			m.asked.AddModel(f, "put what this model predicts beside the cycles: llvm-mca, or another that bbprof score -h lists; may be repeated")
			m.asked.AddMCPU(f)
			m.out.Add(f, "the report")
			f.Toggle(&m.opts.Detail, "v", "add the disassembly, which instruction asked for which page, the host, and what llvm-mca shows "+
				"of the block with -model: pressure and timeline")
			blockflags.SyntaxFlag(f, &m.syntax, "the disassembly")
			blockflags.LayoutFlags(f, &m.opts)
			blockflags.Flags(f, &m.opts)
			cli.Parsed(f, &m.opts.Memory, func(s string) (initial.Memory, error) {
				more, err := initial.ParseMemory(s)
				if err != nil {
					return nil, err
				}
				return m.opts.Memory.And(more)
			}, "mem", "ADDR=VALUE[,...]", "what 64-bit words of memory hold before each run instead of the word that fills it, such as "+
				"0x12345608=0x1234560f; may be repeated")
			f.InFull() // users read this help first
			f.Stray = "quote a block that has spaces in it, and name a command before its flags"
			return m.run
		},
	}
}

type measureBlock struct {
	opts   profiler.Options
	block  blockflags.BlockFlags
	asked  modelflags.Flags
	state  string
	syntax assemble.Syntax
	out    cli.Output
}

func (m *measureBlock) run(std cli.Streams) error {
	if err := m.opts.Check(); err != nil {
		return cli.Usage(err)
	}
	block, err := m.read(std)
	if err != nil {
		return err
	}
	if u := m.opts.Unroll; u != nil && (u.Short+u.Long)*len(block.Code) > layout.CodeSize {
		return cli.BadUsage("-unroll %d,%d: that many copies of %d bytes do not fit into the %d bytes for code", u.Short, u.Long,
			len(block.Code), layout.CodeSize)
	}
	said, err := m.predict(block.Code)
	if err != nil {
		return err
	}
	return blockflags.WithProfiler(std, m.opts, func(ctx context.Context, p *pool.Patient) error {
		p.Waiting = func() {
			if _, terminal := cli.Terminal(std.Err); terminal {
				fmt.Fprintf(m.out.Notes(std), "bbprof: another hardware thread uses this core; waiting up to %v for idle moments\n", p.Patience)
			}
		}
		measured, err := pool.Undisturbed(ctx, p, block)
		if err != nil {
			return err
		}
		result := Result{Result: measured, Models: said}
		if m.ownState(block) && measured.SelfForwarding > 0 && measured.Init.Name == initial.Paper().Name {
			if result.Distinct, err = distinct(ctx, p, block, &measured); err != nil {
				return err
			}
		}
		blockflags.InSyntax(&result.Result, m.syntax)
		return cmp.Or(m.out.Write(std, result, blockflags.Report(result.Result, result.beside())), blockflags.Outcome(result.Result))
	})
}

// distinct measures a block in the first initial state without equal pointers in which it can be, if possible with indices
// in memory that differ: a loop then without its branch, since so much memory is put back for few iterations alone.
func distinct(ctx context.Context, p *pool.Patient, block profiler.Block, measured *profiler.Result) (Distinct, error) {
	branch := block.Setup.Branch
	for _, init := range initial.Distinct(measured.Apart) {
		d := Distinct{Init: init.Name, Indices: init.Elements.Width > 0}
		if block.Setup.Branch = branch; d.Indices && measured.Branch != nil && measured.Branch.As == profiler.Taken {
			block.Setup.Branch, d.Dropped = profiler.Drop, true
		}
		block.Setup.Init = &init
		r, err := pool.Undisturbed(ctx, p, block)
		if err != nil || r.Reason.Noise() {
			return Distinct{}, err
		}
		if r.Status == profiler.OK && (r.SelfForwarding == 0 || !d.Indices) {
			d.Cycles, d.Words = r.Cycles, r.SelfForwarding > 0
			return d, nil
		}
	}
	return Distinct{}, nil
}

// ownState reports whether bbprof chooses the initial state.
func (m *measureBlock) ownState(b profiler.Block) bool {
	return m.opts.Init == "" && m.state == "" && len(m.opts.Set)+len(m.opts.Memory)+len(b.Setup.Set) == 0
}

// predict queries the models before measuring, because their processes would disturb it.
func (m *measureBlock) predict(code []byte) ([]Prediction, error) {
	if len(m.asked.Models) == 0 {
		return nil, nil
	}
	ctx, stop := cli.UntilSignal()
	defer stop()
	return predictions(ctx, m.asked, code, m.opts.CPUs, m.opts.Detail)
}

func (m *measureBlock) read(std cli.Streams) (b profiler.Block, err error) {
	if m.state == "" {
		return m.block.Read(std)
	}
	if m.opts.Init != "" || len(m.opts.Set) > 0 || len(m.opts.Memory) > 0 || m.block.At != nil {
		return b, cli.BadUsage("-state gives the whole initial state and the address: leave out -init, -set, -mem and -address")
	}
	if m.block.Given() {
		if b, err = m.block.Read(std); err != nil {
			return b, err
		}
	}
	return b, blockflags.StartState(&b, m.state)
}

// Instead says how to measure words given in place of a command; "" if they cannot be measured.
func Instead(words []string) string {
	name := words[0]
	if _, err := asm.ParseHex(name, profiler.MaxBlock); err == nil {
		return "to measure a block, write bbprof -hex " + name
	}
	if _, err := os.Stat(name); err == nil {
		return "to measure the blocks of a file, write bbprof batch " + name
	}
	if text := strings.Join(words, " "); blockflags.AssemblyHint(text) != "" {
		return fmt.Sprintf("to measure assembly, write bbprof -asm '%s'", text)
	}
	return ""
}
