package blockflags

import (
	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/assemble"
	"github.com/bbprof/bbprof/profiler"
)

func SyntaxFlag(f *cli.Flags, p *assemble.Syntax, what string) {
	cli.Choice(f, p, assemble.Syntaxes(), "syntax", "NAME", "of "+what+": intel, att (GNU's) or go").Fallback = string(assemble.Intel)
}

func InSyntax(r *profiler.Result, syntax assemble.Syntax) {
	if syntax == "" || syntax == assemble.Intel {
		return
	}
	insts, err := asm.DecodeHex(r.Hex)
	if err != nil || len(insts) != len(r.Listing) {
		return
	}
	for i := range insts {
		r.Listing[i].Text = assemble.Text(&insts[i], syntax)
	}
}
