package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"iter"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// tree is the house as git knows it and the working tree has it: read once, for all tests. It is never changed.
type tree struct {
	root  string // its top, absolute
	files []file
	set   *token.FileSet
}

type file struct {
	path   string // below the top
	text   string
	syntax *ast.File // of Go
}

var read = sync.OnceValues(func() (*tree, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return nil, err
	}
	c := exec.Command("git", "ls-files", "-z")
	c.Dir = root
	listed, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	all := &tree{root: root, set: token.NewFileSet()}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(listed), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // deleted, not committed yet
		} else if err != nil {
			return nil, err
		}
		f := file{path: name, text: string(text)}
		if path.Ext(name) == ".go" {
			f.syntax, err = parser.ParseFile(all.set, name, text, parser.SkipObjectResolution|parser.ParseComments)
			if err != nil {
				return nil, err
			}
		}
		all.files = append(all.files, f)
	}
	return all, nil
})

func house(t *testing.T) *tree {
	t.Helper()
	all, err := read()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// page is the text of one file.
func (h *tree) page(t *testing.T, name string) string {
	t.Helper()
	for _, f := range h.files {
		if f.path == name {
			return f.text
		}
	}
	t.Fatalf("there is no %s", name)
	return ""
}

// code is the files of Go that are below one of the folders, tests among them.
func (h *tree) code(folders ...string) iter.Seq[file] {
	return func(yield func(file) bool) {
		for _, f := range h.files {
			top, _, _ := strings.Cut(f.path, "/")
			for _, folder := range folders {
				if f.syntax != nil && top == folder && !yield(f) {
					return
				}
			}
		}
	}
}

// product is the files of Go that are in the program.
func (h *tree) product() iter.Seq[file] {
	return func(yield func(file) bool) {
		for f := range h.code("api", "cmd", "internal", "images") {
			if !strings.HasSuffix(f.path, "_test.go") && !yield(f) {
				return
			}
		}
	}
}
