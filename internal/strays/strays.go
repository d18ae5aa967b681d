// Package strays ends the processes that a program leaves running.
//
// A process that leaves the program's session (setsid(2)) is in no process group that could be killed, and becomes
// init's child once its parent has ended. This process therefore declares itself a subreaper (PR_SET_CHILD_SUBREAPER,
// prctl(2)): strays become its own children, where it finds them.
package strays
