package stat

// Outcome is what an experiment says of an effect: a change of a set-up changes the time, or does not.
type Outcome string

const (
	Confirmed Outcome = "confirmed" // it does
	NoEffect  Outcome = "no effect" // it does not
	Unclear   Outcome = "unclear"   // the interval holds both
)

// EffectShare is the share of the time below which an effect is not told from what two runs of one set-up differ
// by (docs/precision.md).
const EffectShare = 0.02

// OutcomeOf judges an effect on the shorter of two times by its interval.
func OutcomeOf(effect, low, high, shorter float64) Outcome {
	least := EffectShare * shorter
	switch {
	case low > 0 && effect >= least, high < 0 && effect <= -least:
		return Confirmed
	case low > -least && high < least:
		return NoEffect
	}
	return Unclear
}
