package predict

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
)

// Presser is a source that names the model's resources that a block uses.
type Presser interface {
	// Pressure returns for each block, for example, "Zn4ALU1 1.00, Zn4Load 0.33", or "" if unknown.
	Pressure(ctx context.Context, blocks []string) ([]string, error)
}

// Pressure reads llvm-mca's instruction tables without simulating.
func (m *mca) Pressure(ctx context.Context, blocks []string) ([]string, error) {
	out := make([]string, len(blocks))
	list := make([]int, len(blocks))
	for i := range list {
		list[i] = i
	}
	for part := range slices.Chunk(list, chunk) {
		regions, err := disassemble(ctx, m.disassembler, m.timeout, blocks, part, map[int]score.Prediction{})
		if err != nil {
			return nil, err
		}
		var text strings.Builder
		for _, r := range regions {
			fmt.Fprintf(&text, "# LLVM-MCA-BEGIN %d\n%s\n# LLVM-MCA-END %d\n", r.index, strings.Join(r.lines, "\n"), r.index)
		}
		answer, message, err := pipe(ctx, text.String(), m.tool, "-mtriple="+triple, "-mcpu="+m.cpu, "-json", "-instruction-tables", "-")
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, lastWords(message))
		}
		var report struct {
			TargetInfo  struct{ Resources []string }
			CodeRegions []struct {
				Name                 string
				Instructions         []string
				ResourcePressureView struct {
					ResourcePressureInfo []struct {
						InstructionIndex, ResourceIndex int
						ResourceUsage                   float64
					}
				}
			}
		}
		if err := json.Unmarshal(bytes.ReplaceAll(answer, []byte{0}, nil), &report); err != nil {
			return nil, fmt.Errorf("%s: %w", m.version, err)
		}
		for _, region := range report.CodeRegions {
			var names []string
			cycles := map[string]float64{} // over all units of a name
			for _, p := range region.ResourcePressureView.ResourcePressureInfo {
				if p.InstructionIndex != len(region.Instructions) || p.ResourceIndex >= len(report.TargetInfo.Resources) { // not a total
					continue
				}
				// Some versions write a unit's number after a point as a control character.
				name := strings.TrimRightFunc(report.TargetInfo.Resources[p.ResourceIndex], func(r rune) bool { return r == '.' || r <= ' ' })
				if _, known := cycles[name]; !known {
					names = append(names, name)
				}
				cycles[name] += p.ResourceUsage
			}
			for i, name := range names {
				names[i] = fmt.Sprintf("%s %.2f", name, cycles[name])
			}
			var index int
			if _, err := fmt.Sscan(region.Name, &index); err == nil && index < len(out) {
				out[index] = strings.Join(names, ", ")
			}
		}
	}
	return out, nil
}
