// Package kmod finds a kernel's modules by the lists that depmod writes beside them (modules.dep, modules.alias,
// modules.softdep, modules.builtin; see depmod.d(5) and modules.dep(5)).
//
// What enters: a folder /lib/modules/VERSION. What leaves: which modules a device needs and in which order, a smaller set
// of lists for some of them, and, by Loader, modules in the running kernel.
package kmod

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// Tree is the modules of one kernel. It is not changed once it is read.
type Tree struct {
	modules map[string]module
	builtin map[string]string // name → its path in modules.builtin
	exact   map[string][]string
	globs   map[string][]alias // by what stands before the first colon: pci, virtio, …
	before  map[string][]string
}

type module struct {
	path string   // below the folder
	deps []string // paths, nearest first, as modules.dep lists them: all of them, not only the direct ones
}

// alias says that a device or a request that matches the pattern wants the module.
type alias struct{ pattern, prefix, module string }

// Read reads the lists of a folder. Only modules.dep has to be there.
func Read(folder fs.FS) (*Tree, error) {
	t := &Tree{
		modules: map[string]module{}, builtin: map[string]string{},
		exact: map[string][]string{}, globs: map[string][]alias{}, before: map[string][]string{},
	}
	for _, list := range []struct {
		name string
		line func(string)
	}{
		{"modules.dep", t.dep}, {"modules.alias", t.alias}, {"modules.softdep", t.softdep}, {"modules.builtin", t.built},
	} {
		text, err := fs.ReadFile(folder, list.name)
		if err != nil && (list.name == "modules.dep" || !errors.Is(err, fs.ErrNotExist)) {
			return nil, fmt.Errorf("kernel modules: %w", err)
		}
		for line := range bytes.Lines(text) {
			if l := string(bytes.TrimSpace(line)); l != "" && l[0] != '#' {
				list.line(l)
			}
		}
	}
	return t, nil
}

// dep reads "kernel/a/b.ko: kernel/c.ko kernel/d.ko".
func (t *Tree) dep(line string) {
	file, deps, found := strings.Cut(line, ":")
	if found && safe(file) {
		t.modules[Name(file)] = module{path: file, deps: slices.DeleteFunc(strings.Fields(deps), func(d string) bool {
			return !safe(d)
		})}
	}
}

// safe keeps paths inside the folder.
func safe(file string) bool { return fs.ValidPath(file) && file != "." }

// alias reads "alias PATTERN MODULE".
func (t *Tree) alias(line string) {
	f := strings.Fields(line)
	if len(f) != 3 || f[0] != "alias" {
		return
	}
	a := alias{pattern: f[1], prefix: f[1], module: Name(f[2])}
	if i := strings.IndexAny(a.pattern, `*?[\`); i >= 0 {
		a.prefix = a.pattern[:i]
		bus, _, _ := strings.Cut(a.pattern, ":")
		t.globs[bus] = append(t.globs[bus], a)
	} else {
		t.exact[hyphens(a.pattern)] = append(t.exact[hyphens(a.pattern)], a.module)
	}
}

// softdep reads "softdep MODULE pre: a b post: c". What comes after is of no use to a first stage.
func (t *Tree) softdep(line string) {
	f := strings.Fields(line)
	if len(f) < 3 || f[0] != "softdep" {
		return
	}
	pre := false
	for _, word := range f[2:] {
		switch {
		case strings.HasSuffix(word, ":"):
			pre = word == "pre:"
		case pre:
			t.before[Name(f[1])] = append(t.before[Name(f[1])], word)
		}
	}
}

func (t *Tree) built(line string) { t.builtin[Name(line)] = line }

// Name is a module's name, from its file or any spelling of its name.
func Name(file string) string {
	base, _, _ := strings.Cut(path.Base(file), ".ko")
	return hyphens(base)
}

func hyphens(s string) string { return strings.ReplaceAll(s, "-", "_") }

// Has says whether the kernel has the module, inside or as a file.
func (t *Tree) Has(name string) bool {
	_, file := t.modules[Name(name)]
	_, inside := t.builtin[Name(name)]
	return file || inside
}

// Path is the module's file below the folder; "" if there is none.
func (t *Tree) Path(name string) string { return t.modules[Name(name)].path }

// For returns the names of the modules that what wants: a module's name, a device's modalias, or a name that the kernel
// asks for ("crypto-crc32c").
func (t *Tree) For(what string) []string {
	if _, ok := t.modules[Name(what)]; ok && !strings.ContainsAny(what, ":/") {
		return []string{Name(what)}
	}
	names := slices.Clone(t.exact[hyphens(what)])
	bus, _, _ := strings.Cut(what, ":")
	for _, a := range t.globs[bus] {
		if !strings.HasPrefix(what, a.prefix) {
			continue
		}
		if ok, err := path.Match(a.pattern, what); ok && err == nil && !slices.Contains(names, a.module) {
			names = append(names, a.module)
		}
	}
	return slices.DeleteFunc(names, func(n string) bool { _, ok := t.modules[n]; return !ok })
}

// Order returns the files to load for the modules, each once, what others need first.
func (t *Tree) Order(names ...string) []string {
	var order []string
	seen := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		m, ok := t.modules[name]
		if seen[name] || !ok {
			return
		}
		seen[name] = true
		for _, request := range t.before[name] {
			for _, n := range t.For(request) {
				visit(n)
			}
		}
		for _, d := range slices.Backward(m.deps) {
			visit(Name(d))
		}
		order = append(order, m.path)
	}
	for _, n := range names {
		visit(Name(n))
	}
	return order
}

// Cut returns the lists, by file name, of a folder that has the modules and what they need and nothing else, and the
// modules' files. The same modules always give the same text.
func (t *Tree) Cut(names ...string) (lists map[string][]byte, files []string) {
	files = t.Order(names...)
	slices.Sort(files)
	kept := map[string]bool{}
	var dep, soft, built bytes.Buffer
	var aliases []string
	for _, f := range files {
		kept[Name(f)] = true
		fmt.Fprintf(&dep, "%s:", f)
		for _, d := range t.modules[Name(f)].deps {
			fmt.Fprintf(&dep, " %s", d)
		}
		dep.WriteByte('\n')
		if pre := t.before[Name(f)]; len(pre) > 0 {
			fmt.Fprintf(&soft, "softdep %s pre: %s\n", Name(f), strings.Join(pre, " "))
		}
	}
	for what, modules := range t.exact {
		for _, m := range modules {
			if kept[m] {
				aliases = append(aliases, "alias "+what+" "+m+"\n")
			}
		}
	}
	for _, some := range t.globs {
		for _, a := range some {
			if kept[a.module] {
				aliases = append(aliases, "alias "+a.pattern+" "+a.module+"\n")
			}
		}
	}
	slices.Sort(aliases) // depmod's order depends on the modules that are left out
	for _, name := range slices.Sorted(maps.Keys(t.builtin)) {
		fmt.Fprintln(&built, t.builtin[name])
	}
	return map[string][]byte{
		"modules.dep": dep.Bytes(), "modules.alias": []byte(strings.Join(aliases, "")), "modules.softdep": soft.Bytes(),
		"modules.builtin": built.Bytes(),
	}, files
}
