package cpu

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/cpuid/v2"

	"github.com/bbprof/bbprof/internal/require"
)

func withFeatures(id ID, features ...cpuid.FeatureID) ID {
	return id.with(func(asked ...cpuid.FeatureID) bool { return slices.Contains(features, asked[0]) })
}

func TestRecognizeByModel(t *testing.T) {
	number := func(cell string) int { return int(require.Get(strconv.ParseInt(cell, 0, 0))(t)) }
	for _, row := range require.Table(t, "models.txt") {
		vendor, want := row[0], Name(row[3])
		id := ID{Vendor: vendor, Family: number(row[1]), Model: number(row[2]), L1I: 32 << 10}
		got := Recognize(id, "")
		if got.Name != want || got.Contradiction != "" {
			t.Errorf("%s: %s (%s), want %s", id, got.Name, got.Contradiction, want)
		}
		if got.OpCache != Of(want).OpCache || got.Name == Unknown && got.OpCache.Lines == 0 ||
			got.Name != Unknown && !slices.Contains(Names(), got.Name) ||
			(got.OpCache.Lines == 0) != got.NoOpCache || got.StoreBuffer == 0 || got.WayPredicted != (vendor != intel) {
			t.Errorf("%s: %+v", id, got)
		}
	}
}

// The kinds of core of a hybrid CPU share a model number. Where the kernel does not tell the kind of the CPU at hand,
// its core is not known.
func TestRecognizeKinds(t *testing.T) {
	for _, c := range []struct {
		name  string
		model int
		kinds map[string]Name
	}{
		{"Alder Lake", 0x97, map[string]Name{"": Unknown, "cpu_core": GoldenCove, "cpu_atom": Gracemont}},
		{"Meteor Lake", 0xaa, map[string]Name{"": Unknown, "cpu_core": RedwoodCove, "cpu_atom": Crestmont, "cpu_lowpower": Crestmont}},
		{"Arrow Lake", 0xc6, map[string]Name{"": Unknown, "cpu_core": LionCove, "cpu_atom": Skymont}},
		{"Arrow Lake-H", 0xc5, map[string]Name{"": Unknown, "cpu_core": LionCove, "cpu_atom": Skymont, "cpu_lowpower": Crestmont}},
		{"Lunar Lake", 0xbd, map[string]Name{"": Unknown, "cpu_core": LionCove, "cpu_atom": Skymont}},
		{"Panther Lake", 0xcc, map[string]Name{"": Unknown, "cpu_core": CougarCove, "cpu_atom": Darkmont, "cpu_lowpower": Darkmont}},
		{"a CPU of one kind", 0xbe, map[string]Name{"": Gracemont}},
		{"an unknown model", 0xfe, map[string]Name{"": Unknown, "cpu_core": Unknown, "cpu_atom": Unknown}},
	} {
		for kind, want := range c.kinds {
			id := ID{Vendor: intel, Family: 6, Model: c.model, L1I: 64 << 10, Hybrid: true}
			if got := Recognize(id, kind); got.Name != want || got.StoreBuffer != Of(want).StoreBuffer || got.OpCache != Of(want).OpCache {
				t.Errorf("%s, %q: %+v, want %s", c.name, kind, got, want)
			}
		}
	}
	hidden := ID{Vendor: intel, Family: 6, Model: 0x97} // as under a hypervisor that presents one kind
	require.Equal(t, "without the flag", GoldenCove, Recognize(hidden, "").Name)
}

// What code cannot do without is never 0, and what is known of a row is plausible.
func TestRows(t *testing.T) {
	for _, n := range append(Names(), Unknown) {
		c := Of(n)
		if c.Name != n || c.StoreBuffer < 40 || (c.OpCache == OpCache{}) != c.NoOpCache {
			t.Errorf("%s: %+v", n, c)
		}
		if o := c.OpCache; !c.NoOpCache && (o.Lines < 256 || o.OpsPerLine < 6 || o.Window != 32 && o.Window != 64) {
			t.Errorf("%s: %+v", n, o)
		}
		for what, cycles := range map[string]int{"width": c.DispatchWidth, "loads": c.LoadsPerCycle, "stores": c.StoresPerCycle, "multiply": c.MultiplyCycles} {
			if cycles < 0 || cycles > 8 {
				t.Errorf("%s: %s %d", n, what, cycles)
			}
		}
		if c.Like != "" && (c.Like == n || Of(c.Like).Like != "" || !slices.Contains(Names(), c.Like)) {
			t.Errorf("%s is like %s", n, c.Like)
		}
	}
	if u := Of(Unknown); u.DispatchWidth+u.MultiplyCycles != 0 {
		t.Errorf("of an unknown core is known: %+v", u)
	}
}

// Hypervisors replace model numbers; features that the named core cannot have tell.
func TestRecognizeByFeatures(t *testing.T) {
	skylake := []cpuid.FeatureID{cpuid.AVX512F, cpuid.AVX512BW}
	iceLake := append(slices.Clone(skylake), cpuid.AVX512VBMI2, cpuid.VAES)
	goldenCove := append(slices.Clone(iceLake), cpuid.AVX512FP16, cpuid.AMXTILE)
	rocketLake := ID{Vendor: intel, Family: 6, Model: 0xa7, L1I: 32 << 10, Hypervisor: true}
	large := rocketLake
	large.L1I = 64 << 10
	unknownModel := ID{Vendor: intel, Family: 6, Model: 0xfe, L1I: 32 << 10, Hypervisor: true}
	metal := unknownModel
	metal.Hypervisor = false
	alderLake := ID{Vendor: intel, Family: 6, Model: 0x97, L1I: 64 << 10}
	rome := ID{Vendor: amd, Family: 0x17, Model: 0x31, L1I: 32 << 10, Hypervisor: true}
	for _, c := range []struct {
		name     string
		id       ID
		want     Name
		says     string
		features []cpuid.FeatureID
	}{
		{"what the model has", rocketLake, IceLake, "", iceLake},
		{"less than it has", rocketLake, IceLake, "", skylake},
		{"Sapphire Rapids as Rocket Lake", rocketLake, GoldenCove,
			"CPUID says GenuineIntel family 0x6 model 0xa7, which is Ice Lake; features say Golden Cove (AMXTILE)", goldenCove},
		{"Granite Rapids as Rocket Lake", large, RedwoodCove, "features say Redwood Cove (AVX512BW and an L1I of 64 KiB)", goldenCove},
		{"and its own tiles", rocketLake, RedwoodCove, "features say Redwood Cove (AMXFP16)", append(slices.Clone(goldenCove), cpuid.AMXFP16)},
		{"an L1I alone: a small core", large, IceLake, "", nil},
		{"an unknown model", unknownModel, GoldenCove, "a model that bbprof does not know; features say Golden Cove", goldenCove},
		{"an unknown model, without features", unknownModel, Unknown, "", nil},
		{"an unknown model of real hardware may be newer than all", metal, Unknown, "", goldenCove},
		{"Alder Lake with AVX-512", alderLake, GoldenCove, "", goldenCove},
		{"Milan as Rome", rome, Zen3, "features say Zen 3 (VAES)", []cpuid.FeatureID{cpuid.WBNOINVD, cpuid.VAES}},
		{"Genoa as Rome", rome, Zen4, "features say Zen 4 (AVX512F)", []cpuid.FeatureID{cpuid.VAES, cpuid.AVX512F, cpuid.AVX512BW}},
		{"Turin as Rome", rome, Zen5, "features say Zen 5", []cpuid.FeatureID{cpuid.VAES, cpuid.AVX512F, cpuid.AVX512VP2INTERSECT}},
	} {
		got := Recognize(withFeatures(c.id, c.features...), "")
		if got.Name != c.want || !strings.Contains(got.Contradiction, c.says) || (got.Contradiction == "") != (c.says == "") {
			t.Errorf("%s: %s (%s), want %s (%s)", c.name, got.Name, got.Contradiction, c.want, c.says)
		}
		if got.Core.Name != Unknown {
			require.Equal(t, c.name, Of(c.want).Events, got.Events)
		}
	}
}

// No two rows claim one model number.
func TestModelsAreDisjoint(t *testing.T) {
	for i, a := range models {
		for _, b := range models[:i] {
			if a.vendor == b.vendor && a.family == b.family && a.first <= max(b.first, b.last) && b.first <= max(a.first, a.last) {
				t.Errorf("%+v and %+v", a, b)
			}
		}
	}
	for _, m := range models {
		for _, n := range []Name{m.core, m.small, m.lowPower} {
			if n != "" && !slices.Contains(Names(), n) {
				t.Errorf("%+v", m)
			}
		}
	}
}

func TestParseList(t *testing.T) {
	for s, want := range map[string][]int{
		"0": {0}, "1,0": {1, 0}, "0-3,8": {0, 1, 2, 3, 8}, " 2 , 3 \n": {2, 3}, "4-4": {4}, "99999": {99999},
	} {
		if got, err := ParseList(s); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "-1", "1-", "-", "3-2", "a", "1,,2", "0-9999999999"} {
		if got, err := ParseList(s); err == nil {
			t.Errorf("%q is %v", s, got)
		}
	}
}
