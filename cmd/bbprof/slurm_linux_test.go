package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/require"
)

// cluster is a Slurm of two nodes on this machine, each a process namespace with one CPU.
type cluster struct {
	t    *testing.T
	dir  string
	env  []string
	node [2]*exec.Cmd
}

// startSlurm starts munged, slurmctld and two slurmds with configuration, keys and ports of their own.
func startSlurm(t *testing.T) *cluster {
	t.Helper()
	for _, program := range []string{"sbatch", "srun", "slurmctld", "slurmd", "munged", "unshare", "taskset"} {
		require.Tool(t, require.Slurm, program)
	}
	if os.Getuid() != 0 {
		require.Skip(t, require.Root, "slurmd and unshare --pid need root")
	}
	cpus := require.Get(host.AllowedCPUs())(t)
	if len(cpus) < 2 {
		require.Skip(t, require.CPU, "two nodes need two CPUs")
	}
	c := &cluster{t: t, dir: t.TempDir()}
	conf := require.Get(os.ReadFile("testdata/slurm/slurm.conf"))(t)
	name := require.Get(os.Hostname())(t)
	name, _, _ = strings.Cut(name, ".")
	ports := freePorts(t, 3)
	text := strings.NewReplacer("DIR", c.dir, "HOST", name, "PORT0", ports[0], "PORT1", ports[1], "PORT2", ports[2]).Replace(string(conf))
	exe, err1 := os.Executable()
	require.NoError(t, errors.Join(err1, os.Mkdir(filepath.Join(c.dir, "bin"), 0o755),
		os.Symlink(exe, filepath.Join(c.dir, "bin", "bbprof")), // by this name the test binary is bbprof; see TestMain
		os.WriteFile(filepath.Join(c.dir, "bbprof"), []byte(halting), 0o755),
		os.WriteFile(filepath.Join(c.dir, "slurm.conf"), []byte(text), 0o644),
		os.WriteFile(filepath.Join(c.dir, "key"), bytes.Repeat([]byte("bbprof's test "), 80), 0o600),
		os.Mkdir(filepath.Join(c.dir, "state"), 0o755)))
	c.env = append(os.Environ(), "SLURM_CONF="+filepath.Join(c.dir, "slurm.conf"), "PATH="+c.dir+":"+os.Getenv("PATH"))
	c.start("munged", "--foreground", "--force", "--key-file="+c.dir+"/key", "--socket="+c.dir+"/munge.socket",
		"--pid-file="+c.dir+"/munge.pid", "--log-file="+c.dir+"/munge.log", "--seed-file="+c.dir+"/munge.seed")
	c.await("munged", func() bool { _, err := os.Stat(c.dir + "/munge.socket"); return err == nil })
	c.start("slurmctld", "-D", "-c")
	for i := range c.node {
		// All processes of a node die with the first of its namespace.
		c.node[i] = c.start("taskset", "-c", fmt.Sprint(cpus[i]), "unshare", "--pid", "--mount-proc", "--kill-child", "--fork",
			"slurmd", "-D", "-N", fmt.Sprint("n", i))
	}
	c.await("two idle nodes", func() bool { return strings.Count(c.query("sinfo", "-h", "-N", "-o", "%t"), "idle") == 2 })
	return c
}

// halting is bbprof for a job: its first run of tasks 0 and 1, one on each node, halts once the part has some rows.
const halting = `#!/bin/sh
part=part$SLURM_ARRAY_TASK_ID.csv
if [ "$SLURM_ARRAY_TASK_ID" -gt 1 ] || [ -e "$part" ]; then exec bin/bbprof "$@"; fi
bin/bbprof "$@" &
until [ "$(cat "$part" 2>/dev/null | wc -l)" -gt 20 ]; do sleep 0.02; done
kill -STOP $!
touch "halted$SLURM_ARRAY_TASK_ID"
wait
`

// freePorts are numbers that no one listens on.
func freePorts(t *testing.T, n int) (ports []string) {
	t.Helper()
	for range n {
		l := require.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		ports = append(ports, port)
	}
	return ports
}

// start runs a daemon until the test ends.
func (c *cluster) start(args ...string) *exec.Cmd {
	c.t.Helper()
	cmd := c.command(args...)
	log := require.Get(os.CreateTemp(c.dir, "log-"+args[0]))(c.t)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(c.t, cmd.Start())
	c.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait(); log.Close() })
	return cmd
}

func (c *cluster) command(args ...string) *exec.Cmd {
	path := args[0]
	if p, err := exec.LookPath(path); err == nil {
		path = p
	}
	cmd := exec.Command(path, args[1:]...)
	cmd.Args[0] = args[0]
	cmd.Env, cmd.Dir = c.env, c.dir
	return cmd
}

// query is what a command of Slurm prints.
func (c *cluster) query(args ...string) string {
	out, _ := c.command(args...).CombinedOutput()
	return string(out)
}

// await waits until something is there, for a minute more with each row that is written: a busy machine takes its time.
func (c *cluster) await(what string, there func() bool) {
	c.t.Helper()
	rows, end := 0, time.Now().Add(time.Minute)
	for ; !there(); time.Sleep(time.Second / 2) { // asking takes time from what is measured
		if n := c.rows(); n > rows {
			rows, end = n, time.Now().Add(time.Minute)
		}
		if time.Now().After(end) {
			logs, _ := filepath.Glob(c.dir + "/*-*") // of daemons, and of tasks
			for _, name := range logs {
				text, _ := os.ReadFile(name)
				c.t.Logf("%s:\n%s", filepath.Base(name), text[max(0, len(text)-3000):])
			}
			c.t.Fatalf("no %s in a minute without a new row; queue:\n%s", what, c.query("squeue", "-r")+c.query("sinfo", "-N"))
		}
	}
}

// rows counts those of all parts.
func (c *cluster) rows() (n int) {
	parts, _ := filepath.Glob(c.dir + "/part*.csv")
	for _, name := range parts {
		text, _ := os.ReadFile(name)
		n += bytes.Count(text, []byte("\n"))
	}
	return n
}

// TestSlurm runs the array of docs/bbprof.sbatch: three tasks on two nodes, of which one is killed in the middle of
// its task, and the task of the other is requeued. The array ends by itself, and every block is in the merged result once.
func TestSlurm(t *testing.T) {
	require.Slow(t)
	mustMeasure(t)
	c := startSlurm(t)
	script := require.Get(filepath.Abs("../../docs/bbprof.sbatch"))(t)
	var blocks strings.Builder
	const tasks, n = 3, 1200 // a part takes half a second or more, and halts before
	for i := range n {       // mov eax, i; add rax, rax
		fmt.Fprintf(&blocks, "b8%02x%02x00004801c0\n", i&0xff, i>>8)
	}
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, "blocks.csv"), []byte(blocks.String()), 0o644))
	out, err := c.command("sbatch", "--parsable", "--cpus-per-task=1", fmt.Sprintf("--array=0-%d", tasks-1), script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	job := strings.TrimSpace(string(out))
	c.await("two tasks in their middle", func() bool {
		halted, _ := filepath.Glob(c.dir + "/halted*")
		return len(halted) == 2
	})
	lost := strings.TrimSpace(c.query("squeue", "-h", "-r", "-t", "R", "-w", "n1", "-o", "%K"))
	require.NoError(t, c.node[1].Process.Kill())
	c.query("scontrol", "update", "NodeName=n1", "State=DOWN", "Reason=killed") // as Slurm finds out after SlurmdTimeout, and the rest of a minute
	requeued := map[string]string{"0": "1", "1": "0"}[lost]
	if out, err := c.command("scontrol", "requeue", job+"_"+requeued).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c.await("end of the array", func() bool {
		for line := range strings.Lines(c.query("squeue", "-h", "-r", "-o", "%F_%K %r")) {
			if task, reason, _ := strings.Cut(line, " "); strings.TrimSpace(reason) == "BeginTime" { // what was requeued waits for two minutes
				c.query("scontrol", "update", "JobId="+task, "StartTime=now")
			}
		}
		return c.query("squeue", "-h", "-r") == ""
	})

	for _, task := range []string{lost, requeued} {
		log, _ := os.ReadFile(fmt.Sprintf("%s/slurm-%s_%s.out", c.dir, job, task))
		if !strings.Contains(string(log), "bbprof: continuing part"+task+".csv, which has ") {
			t.Errorf("task %s was not continued:\n%s", task, log)
		}
	}
	merge := c.command("bbprof", "convert", "-of", "blocks.csv", "-o", "all.csv")
	for i := range tasks {
		merge.Args = append(merge.Args, fmt.Sprintf("part%d.csv", i))
	}
	merge.Path = filepath.Join(c.dir, "bin", "bbprof")
	if out, err := merge.CombinedOutput(); err != nil || !strings.Contains(string(out), fmt.Sprintf("%d rows joined", n)) {
		t.Fatalf("%v: %s", err, out)
	}
	all := require.Get(os.ReadFile(filepath.Join(c.dir, "all.csv")))(t)
	lines := strings.SplitAfter(string(all), "\n")[1:]
	for i, want := range strings.Split(blocks.String(), "\n")[:n] {
		if hex, _, _ := strings.Cut(lines[i], ","); hex != want {
			t.Fatalf("row %d is of %s, want %s", i+1, hex, want)
		}
	}
}
