package program

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	states "github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/state"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

func (c *captureCmd) verifyFile(std cli.Streams) error {
	file, err := states.Open(c.verify)
	if err != nil {
		return cli.Usage(err)
	}
	defer file.Close()
	out := cli.Output{Quiet: c.quiet}
	ctx, stop := cli.UntilSignal()
	defer stop()
	p, err := profiler.New(ctx, profiler.Options{CPUs: c.options.CPUs})
	if err != nil {
		return err
	}
	defer p.Close()
	report, differ, err := verify(ctx, p, c.verify, file)
	if err != nil {
		return err
	}
	return out.Reject(std, differ, nil, report)
}

// verify executes the visits of a file, and reports whether all end as in the program.
func verify(ctx context.Context, p *profiler.Profiler, name string, file *states.Reader) (report string, differ bool, err error) {
	const listed = 20
	blocks, rejected := map[string]bool{}, map[verdict.Reason]int{}
	identical, different := 0, 0
	var list strings.Builder
	for _, entry := range file.Index() {
		visit, err := file.At(entry.ID)
		if err != nil {
			return "", false, cli.Usage(err)
		}
		where := fmt.Sprintf("%s#%d", name, entry.ID)
		code, err := asm.ParseHex(entry.Hex, profiler.MaxBlock)
		if err != nil {
			return "", false, cli.BadUsage("%s: %w", where, err)
		}
		blocks[fmt.Sprintf("%s %x", entry.File, entry.Address)] = true
		got, err := p.Replay(ctx, code, &visit.Before)
		if why := (*verdict.Rejection)(nil); errors.As(err, &why) {
			rejected[why.Reason]++
			continue
		} else if err != nil {
			return "", false, fmt.Errorf("%s: %w", where, err)
		}
		differences := differences(&visit, got)
		if len(differences) == 0 {
			identical++
		} else if different++; different <= listed {
			fmt.Fprintf(&list, "%s  %s  %s\n    %s\n", where, entry.Function, entry.Hex, strings.Join(differences, "\n    "))
		}
	}
	t := cli.NewTable("l", "visits", fmt.Sprintf("%d of %d blocks", len(file.Index()), len(blocks)))
	t.Row("identical", fmt.Sprint(identical))
	t.Row("different", fmt.Sprint(different))
	if reasons := words.Frequent(rejected); len(reasons) > 0 {
		t.Row("rejected", strings.Join(reasons, ", "))
	}
	return t.String() + list.String(), different > 0, nil
}

// differences lists where a state differs from the program's state after the visit, each with both values, the
// replay's first.
func differences(v *states.Visit, got *initial.Captured) (list []string) {
	want := &v.After
	differ := func(name string, want, got any) {
		list = append(list, fmt.Sprintf("%s %v, not %v", name, got, want))
	}
	word := func(name string, want, got uint64) {
		if want != got {
			differ(name, fmt.Sprintf("%#x", want), fmt.Sprintf("%#x", got))
		}
	}
	for i := range want.GPR {
		word(asm.Reg(i).String(), want.GPR[i], got.GPR[i])
	}
	word("flags", want.RFlags(), got.RFlags())
	word("mxcsr", uint64(want.MXCSR), uint64(got.MXCSR))
	for i := range want.Opmasks {
		word(fmt.Sprintf("k%d", i), want.Opmasks[i], got.Opmasks[i])
	}
	wantVectors, gotVectors := vectors(want), vectors(got)
	for i := range wantVectors {
		if wantVectors[i] != gotVectors[i] {
			differ(fmt.Sprintf("zmm%d", i), fmt.Sprintf("%#x", wantVectors[i]), fmt.Sprintf("%#x", gotVectors[i]))
		}
	}
	if want.X87 != got.X87 {
		differ("x87", want.X87, got.X87)
	}
	return append(list, pages(v, got)...)
}

func vectors(c *initial.Captured) (all [32][8]uint64) {
	for _, v := range c.Vectors {
		all[v.Reg] = v.Words
	}
	return all
}

// pages lists the first difference in each page of memory.
func pages(v *states.Visit, got *initial.Captured) (list []string) {
	for i := range got.Pages {
		p := &got.Pages[i]
		want := &v.Before.Pages[i]
		if k := slices.IndexFunc(v.After.Pages, func(q initial.Page) bool { return q.Address == p.Address }); k >= 0 {
			want = &v.After.Pages[k]
		}
		for at := range p.Data {
			if p.Data[at] != want.Data[at] {
				list = append(list, fmt.Sprintf("byte at %#x %#x, not %#x", p.Address+uint64(at), p.Data[at], want.Data[at]))
				break
			}
		}
	}
	return list
}
