package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/debuggee"
)

// Follow runs a command once, without a set-up, to see which programs it execs, as env and sh do. The returned command
// is set up and measured from the last of them, or from the one called name, at which the run is ended. notes are
// remarks for the user.
func (c Command) Follow(ctx context.Context, o Control, name string) (followed Command, notes []string, err error) {
	var images, started []string
	err = c.Control(ctx, Setup{}, o, func(p *debuggee.Process) error {
		p.Watch()
		for end := (*debuggee.End)(nil); end == nil; {
			image, err := p.Image()
			if err != nil {
				return err
			}
			images = append(images, image)
			if named(image, name) {
				return nil
			}
			if end, err = p.ToExec(); err != nil {
				return err
			}
		}
		started = p.Started()
		return nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		err = c.endless(o.Timeout)
	}
	if err != nil {
		return c, nil, err
	}
	at, set := len(images)-1, c.Name
	if name != "" && !named(images[at], name) {
		return c, nil, notBecome(c.Name, name, images, started)
	}
	if at > 0 {
		set = filepath.Base(images[at])
		c.launcher, c.execs = cmp.Or(c.launcher, c.Exe.Path), at
		if c.Exe, err = open(images[at]); err != nil {
			return c, nil, err
		}
		notes = append(notes, fmt.Sprintf("%s becomes %s by exec: %s alone is set up and measured", c.Name, strings.Join(images[1:], " and then "), set))
	}
	if len(started) > 0 {
		slices.Sort(started)
		notes = append(notes, fmt.Sprintf("%s starts %s by fork, not by exec: stack, heap and code are set up for %[1]s "+
			"alone, and its own time counts too; to set up another program, name it or start it by exec (sh -c 'exec PROG')",
			set, strings.Join(slices.Compact(started), ", ")))
	}
	return c, notes, nil
}

// named reports whether an image has a name, which may be a path.
func named(image, name string) bool {
	return name != "" && (image == name || filepath.Base(image) == filepath.Base(name))
}

func notBecome(command, name string, images, started []string) error {
	e := Errorf(command, "it is "+strings.Join(images, ", then "), "it never becomes %s", name)
	if slices.ContainsFunc(started, func(image string) bool { return named(image, name) }) {
		e.Problem, e.Remedy = fmt.Sprintf("it starts %s in a process of its own, which is not followed", name),
			"name that program itself, or start it by exec: sh -c 'exec PROG'"
	}
	return e
}

// launch runs a started program up to the image that is set up.
func (c Command) launch(p *debuggee.Process, s Setup) error {
	if c.launcher == "" {
		return nil
	}
	for range c.execs {
		if end, err := p.ToExec(); err != nil {
			return err
		} else if end != nil {
			return Errorf(c.Name, "name that program itself", "it did not become %s this time: %v", c.Exe.Path, end)
		}
	}
	image, err := p.Image()
	if err != nil {
		return err
	}
	if c.execs > 0 && image != c.Exe.Path {
		return Errorf(c.Name, "name the program itself", "it became %s this time, and %s before", image, c.Exe.Path)
	}
	if s.EnvBytes == 0 {
		return nil
	}
	if padded, err := p.Has(s.padding()); err != nil || padded {
		return err
	}
	return Errorf(c.Name, "name that program itself; -clean-env leaves its environment empty but for that",
		"it does not pass its environment to %s: %s is missing, so the size cannot be set", c.Exe.Path, padName)
}
