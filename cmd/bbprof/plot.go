package main

import (
	"fmt"
	"os"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
	"github.com/bbprof/bbprof/internal/host"
)

type plots []string

func (p *plots) add(f *flags) {
	f.declare(flagDecl{name: "plot", arg: "FILE", help: "draw it; FILE ends in .svg, .png or .pdf; may be repeated", set: func(file string) error {
		if _, err := plot.Format(file); err != nil {
			return err
		}
		// What cannot be written should be known before measuring, not after.
		if err := writable(file); err != nil {
			return err
		}
		*p = append(*p, file)
		return nil
	}})
}

// draw writes the figure of a subject, such as "block 4801c0", to each file.
func (p plots) draw(subject string, f plot.Figure) error {
	if len(p) == 0 {
		return nil
	}
	cpu := host.Detect()
	f.Subject, f.Machine = subject, fmt.Sprintf("%s (%s)", cpu.Brand, cpu.Microarchitecture)
	for _, file := range p {
		if err := f.Save(file); err != nil {
			return err
		}
	}
	return nil
}

func blockSubject(hex string) string {
	const shown = 160 // two lines
	if len(hex) > shown {
		hex = hex[:shown] + "…"
	}
	return "block " + hex
}

// writable tries whether a file can be written, before time is spent on what will be in it.
func writable(name string) error {
	_, missing := os.Stat(name)
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	if missing != nil {
		os.Remove(name)
	}
	return f.Close()
}
