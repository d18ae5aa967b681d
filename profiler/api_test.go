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

// TestPublicAPI: exported names of the public packages use no type of an internal package, which another
// program could neither create nor name.
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
	check := func(typ types.Type) {
		text := types.TypeString(typ, nil)
		if strings.Contains(text, "/internal/") {
			found = append(found, path+" names "+text)
		}
	}
	name, ok := o.(*types.TypeName)
	if !ok {
		check(o.Type())
		return found
	}
	if name.IsAlias() {
		check(types.Unalias(o.Type()))
	}
	switch under := o.Type().Underlying().(type) {
	case *types.Struct:
		for f := range under.Fields() {
			if f.Exported() {
				found = append(found, leaks(f, path)...)
			}
		}
	case *types.Interface:
		for m := range under.Methods() {
			if m.Exported() {
				found = append(found, leaks(m, path)...)
			}
		}
	default:
		check(under)
	}
	methods := types.NewMethodSet(types.NewPointer(o.Type()))
	for m := range methods.Methods() {
		if m.Obj().Exported() {
			found = append(found, leaks(m.Obj(), path)...)
		}
	}
	return found
}
