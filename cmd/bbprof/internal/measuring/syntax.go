package measuring

import (
	"context"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/assemble"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
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

// A syntaxMeasurer writes listings in another syntax.
type syntaxMeasurer struct {
	measure.Measurer
	syntax assemble.Syntax
}

func (m syntaxMeasurer) ProfileAll(ctx context.Context, next func() (profiler.Block, bool), done func(profiler.Result, error)) error {
	return m.Measurer.ProfileAll(ctx, next, func(r profiler.Result, err error) {
		InSyntax(&r, m.syntax)
		done(r, err)
	})
}

func ListingIn(all []measure.Measurer, syntax assemble.Syntax) []measure.Measurer {
	if syntax != "" && syntax != assemble.Intel {
		for i := range all {
			all[i] = syntaxMeasurer{all[i], syntax}
		}
	}
	return all
}
