package fewfiles

import (
	"os"
	"strconv"
	"syscall"
)

// least is what is open before main: 0 to 2, the runtime's epoll and eventfd, its two of the
// cgroup's CPU limit, and the one that protobuf opens.
const least = 8

const exitHost = 3 // as cmd/bbprof has it

func init() {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil || l.Cur >= least {
		return
	}
	os.Stderr.WriteString("bbprof: this host cannot measure: no more than " + strconv.FormatUint(l.Cur, 10) +
		" files may be open in this process, and Go's runtime needs " + strconv.Itoa(least) + "; raise ulimit -n\n")
	os.Exit(exitHost)
}
