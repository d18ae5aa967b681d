package suggest

// Error says what is wrong with a program or a file that the user named, not with bbprof or the host.
type Error struct {
	Subject string // that is named
	Problem string // in one clause
	Remedy  string
	Err     error // what the system answered
}

func (e *Error) Error() string {
	s := e.Subject + ": " + e.Problem
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Remedy != "" {
		s += "; " + e.Remedy
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }
