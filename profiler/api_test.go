package profiler_test

import (
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// TestPublicAPI: exported names of the public packages use no type of an internal package.
func TestPublicAPI(t *testing.T) {
	const module = "github.com/bbprof/bbprof/"
	out := require.Get(exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", module+"profiler").Output())(t)
	compiled := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		compiled[path] = file
	}
	imports := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(compiled[path]) })
	public := 0
	for path := range compiled {
		if !strings.HasPrefix(path, module) || strings.Contains(path, "/internal/") {
			continue
		}
		public++
		p := require.Get(imports.Import(path))(t)
		for _, name := range p.Scope().Names() {
			if o := p.Scope().Lookup(name); o.Exported() {
				for _, leak := range leaks(o, strings.TrimPrefix(path, module)) {
					t.Error(leak)
				}
			}
		}
	}
	if public < 7 {
		t.Errorf("only %d public packages were found", public)
	}
}

// leaks lists the internal types in an exported object, its exported fields and its methods.
func leaks(o types.Object, path string) (found []string) {
	path += "." + o.Name()
	parts, shown := []types.Object{}, o.Type()
	if name, ok := o.(*types.TypeName); ok {
		if shown = o.Type().Underlying(); name.IsAlias() {
			shown = types.Unalias(o.Type())
		}
		if s, ok := o.Type().Underlying().(*types.Struct); ok {
			shown = types.Typ[types.Invalid] // its fields are shown
			for field := range s.Fields() {
				parts = append(parts, field)
			}
		}
		for m := range types.NewMethodSet(types.NewPointer(o.Type())).Methods() {
			parts = append(parts, m.Obj())
		}
	}
	if text := types.TypeString(shown, nil); strings.Contains(text, "/internal/") {
		found = append(found, path+" names "+text)
	}
	for _, part := range parts {
		if part.Exported() {
			found = append(found, leaks(part, path)...)
		}
	}
	return found
}
