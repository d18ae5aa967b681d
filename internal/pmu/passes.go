package pmu

import (
	"errors"
	"fmt"
	"syscall"
)

// Pass is a group of events that are counted together, core cycles first.
type Pass []Event

func (p Pass) Attrs() []Attr {
	var attrs []Attr
	for i, e := range p {
		e.Attr.Leader = i == 0
		attrs = append(attrs, e.Attr)
	}
	return attrs
}

// Passes packs the available events, in order, into groups of at most perPass that fit the free
// counters. Nothing is multiplexed: an event that does not fit is counted in another pass. Software
// events, and roles that share another's event, are in none.
func Passes(k Kernel, cycles Event, events []Event, perPass int) []Pass {
	passes := []Pass{{cycles}}
	for _, e := range events {
		if !e.Available || e.Shares != "" || e.Role == Cycles || e.Software() {
			continue
		}
		last := &passes[len(passes)-1]
		grown := append((*last)[:len(*last):len(*last)], e)
		if len(grown) <= perPass {
			if _, err := Try(k, grown.Attrs()); err == nil {
				*last = grown
				continue
			}
		}
		passes = append(passes, Pass{cycles, e}) // which was tried when it was found available
	}
	return passes
}

// Software reports whether the kernel counts the event, so that rdpmc cannot read it.
func (e Event) Software() bool { return e.Attr.Type == TypeSoftware }

// Try tests whether the kernel can count each event together with core cycles, or alone if it is a
// software event, and records the outcome in it.
func (p PMU) Try(k Kernel, events []Event) {
	for i := range events {
		e := &events[i]
		switch {
		case e.Software():
			_, err := Try(k, []Attr{e.Attr})
			switch e.Available = err == nil; {
			case err == nil:
			case e.Attr.ofKernel() && (errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM)):
				e.Why = fmt.Sprintf("it happens in the kernel, which kernel.perf_event_paranoid=%d hides", p.Paranoid)
				e.Remedy = "sudo sysctl kernel.perf_event_paranoid=1, or run with CAP_PERFMON"
			default:
				e.Why, e.Remedy = p.explain(err)
			}
		case !p.Available:
			e.Why, e.Remedy = p.Reason, p.Remedy
		default:
			e.try(k, p.Event(Cycles).Attr)
		}
	}
}
