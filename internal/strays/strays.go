// Package strays ends the processes that a program leaves running.
//
// Those that leave the program's session (setsid(2)) are in no group that could be killed, and once their parents have
// ended they would be init's children. This process therefore declares itself a subreaper (PR_SET_CHILD_SUBREAPER,
// prctl(2)): they become its own children, by which it finds them.
package strays
