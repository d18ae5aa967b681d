package resources

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bbprof/bbprof/internal/require"
)

// core is a simulated core: forms of micro-operations, each with its ports.
type core struct {
	width int // micro-operations a cycle
	ports int
	forms [][]uint // by form: the ports of each micro-operation, as bits
	rand  *rand.Rand
}

// cycles is an ideal scheduler's time: no group of ports does more than one operation per port and cycle.
func (c *core) cycles(m Mix) float64 {
	n, load := 0.0, map[uint]float64{}
	for _, p := range m {
		n += float64(p.N * len(c.forms[p.Form]))
		for _, ports := range c.forms[p.Form] {
			load[ports] += float64(p.N)
		}
	}
	most := n / float64(c.width)
	for group := uint(1); group < 1<<c.ports; group++ {
		sum := 0.0
		for ports, n := range load {
			if ports&^group == 0 {
				sum += n
			}
		}
		most = max(most, sum/float64(bits.OnesCount(group)))
	}
	return most
}

func (c *core) time(_ context.Context, mixes []Mix) (times []Timing, err error) {
	for _, m := range mixes {
		t := c.cycles(m) * (1 + 0.002*c.rand.NormFloat64())
		times = append(times, Timing{Cycles: t, Low: t * 0.995, High: t * 1.005})
	}
	return times, nil
}

// drawn is a core with random groups of ports, and forms of each group, some of two operations.
func drawn(seed uint64) (*core, []Form) {
	r := rand.New(rand.NewPCG(seed, 1))
	c := &core{width: 5 + r.IntN(2), ports: 6 + r.IntN(3), rand: r}
	var groups []uint
	for range 5 + r.IntN(4) {
		g := uint(0)
		for range 1 + r.IntN(4) {
			g |= 1 << r.IntN(c.ports)
		}
		groups = append(groups, g)
	}
	var list []Form
	add := func(simple bool, ports ...uint) {
		list = append(list, Form{Name: fmt.Sprintf("f%d%b", len(list), ports), Simple: simple})
		c.forms = append(c.forms, ports)
	}
	for _, g := range groups {
		add(true, g)
		add(true, g)
	}
	for range 20 {
		add(false, groups[r.IntN(len(groups))], groups[r.IntN(len(groups))])
	}
	for i := range list {
		list[i].Alone = c.cycles(Mix{{i, 120}}) / 120
	}
	return c, list
}

// TestDrawnPorts: on cores with random ports, the table tells each form's number of units, and the time of other mixes.
func TestDrawnPorts(t *testing.T) {
	const cores, mixes = 8, 300
	total := 0.0
	for seed := range uint64(cores) {
		c, list := drawn(seed)
		table := require.Get(Find(t.Context(), list, c.time, func(string) {}))(t)
		for i := range list {
			if list[i].Simple && math.Abs(table.Forms[i].Alone-1/float64(bits.OnesCount(c.forms[i][0]))) > 0.02 {
				t.Errorf("seed %d: %s takes %.2f cycles", seed, list[i].Name, table.Forms[i].Alone)
			}
		}
		sum := 0.0
		for range mixes {
			var mix Mix
			for _, f := range c.rand.Perm(len(list))[:2+c.rand.IntN(11)] {
				mix = append(mix, Part{f, 1 + c.rand.IntN(2)})
			}
			want, got := c.cycles(mix), table.Cycles(mix)
			sum += math.Abs(got-want) / want / mixes
		}
		if sum > 0.05 {
			t.Errorf("seed %d: %d ports, %d wide: the mean error is %.1f %%", seed, c.ports, c.width, 100*sum)
		}
		total += sum / cores
	}
	if total > 0.01 {
		t.Errorf("the mean error is %.1f %%", 100*total)
	}
}

// TestWrite: a table survives writing and reading.
func TestWrite(t *testing.T) {
	c, list := drawn(1)
	table := require.Get(Find(t.Context(), list, c.time, func(string) {}))(t)
	table.Forms[0].Latencies = map[string]float64{"2 to 1": 3}
	var json, csv, page strings.Builder
	require.NoError(t, errors.Join(table.Write(&json), table.WriteCSV(&csv), table.WritePage(&page)))
	require.Equal(t, "read again", table, require.Get(Read(strings.NewReader(json.String())))(t),
		cmpopts.IgnoreUnexported(Resource{}), cmpopts.IgnoreFields(Form{}, "Simple", "Beside"))
	require.Equal(t, "lines of CSV", 1+len(list)*len(table.Resources), strings.Count(csv.String(), "\n"))
	if !strings.Contains(page.String(), table.Resources[0].Name) {
		t.Error("the page lacks a resource")
	}
	number := regexp.MustCompile(`"uses":\[\[[0-9.]+`).FindString(json.String())
	for _, change := range [][2]string{{json.String(), "{}"}, {`"per_cycle":`, `"per_cycle":-`}, {`"per_cycle":`, `"per_cycle":1e308,"x":`},
		{`"2 to 1":3`, `"2 to 1":-3`}, {`"2 to 1":3`, `"2 to 1":1e308`}, {number, `"uses":[[-1`}, {number, `"uses":[[1e308`}, {`"alone":`, `"alone":-`}} {
		text := strings.Replace(json.String(), change[0], change[1], 1)
		if _, err := Read(strings.NewReader(text)); text == json.String() || err == nil {
			t.Errorf("a file with %s is read", change[1])
		}
	}
}

// TestFindEnds: whichever call of the timer fails, Find returns its error.
func TestFindEnds(t *testing.T) {
	for fails := 0; ; fails++ {
		c, list := drawn(2)
		calls := 0
		_, err := Find(t.Context(), list, func(ctx context.Context, mixes []Mix) ([]Timing, error) {
			if calls++; calls > fails {
				return nil, io.ErrClosedPipe
			}
			return c.time(ctx, mixes)
		}, func(string) {})
		if err == nil {
			if fails < 20 {
				t.Errorf("the timer is called %d times", fails)
			}
			return
		}
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Fatalf("call %d fails: %v", fails+1, err)
		}
	}
}
