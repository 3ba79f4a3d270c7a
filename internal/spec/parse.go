package spec

import (
	"fmt"
	"strings"
)

// Document is a valid cluster file: what it says, and where it says it.
type Document struct {
	File    string
	Cluster Cluster
	places  map[string]position
}

// Parse reads one cluster file, in YAML or JSON. The file's name is only for messages. An error is always Diagnostics, and holds
// everything that is wrong, as far as the text can be understood.
func Parse(file string, src []byte) (*Document, error) {
	doc := &Document{File: file}
	var err error
	doc.places, err = clusterFile.read(file, src, func(r *reader, values any) {
		doc.Cluster = decode(values)
		r.applyRules(doc.Cluster)
	})
	if err != nil {
		return nil, err
	}
	doc.nickname()
	return doc, nil
}

// nickname lets what is resolved from a short form, or called by name as in Diff, be found where the user wrote it.
func (d *Document) nickname() {
	if at, short := d.places["nodes"]; short {
		d.places["queues"] = at
	}
	for i, q := range d.Cluster.Queues {
		path := fmt.Sprintf("queues[%d]", i)
		if at, short := d.places[path+".nodes"]; short {
			d.places[path+".min"], d.places[path+".max"] = at, at
		}
		d.alias(path, fmt.Sprintf("queues[%s]", q.Name))
	}
	for i, s := range d.Cluster.Storage {
		d.alias(fmt.Sprintf("storage[%d]", i), fmt.Sprintf("storage[%s]", s.Mount))
	}
}

// alias makes all that is known below one path known below another.
func (d *Document) alias(path, other string) {
	found := map[string]position{}
	for p, at := range d.places {
		if rest, below := strings.CutPrefix(p, path); below {
			found[other+rest] = at
		}
	}
	for p, at := range found {
		d.places[p] = at
	}
}

// Position is where a path such as "queues[1].class" or "queues[cpu].class" is written, or its nearest parent that is: a value's
// own place, and the key of a mapping or list. Line and column count from 1.
func (d *Document) Position(path string) (line, col int) {
	for {
		if at, ok := d.places[path]; ok {
			return at.line, at.col
		}
		if path == "" {
			return 1, 1 // a Document that no text was parsed for
		}
		path = parentOf(path)
	}
}

// parentOf takes the last step off a path: "queues[/a.b].x" → "queues[/a.b]" → "queues" → "".
func parentOf(path string) string {
	if strings.HasSuffix(path, "]") {
		return path[:max(strings.LastIndexByte(path, '['), 0)]
	}
	return path[:max(strings.LastIndexByte(path, '.'), 0)]
}

// Locate says where in the file each diagnostic's path is, for those that do not know yet, and orders them.
func (d *Document) Locate(ds Diagnostics) Diagnostics {
	located := append(Diagnostics(nil), ds...)
	for i := range located {
		at := &located[i]
		if at.Line == 0 {
			at.Line, at.Col = d.Position(at.Path)
		}
		if at.File == "" {
			at.File = d.File
		}
	}
	located.sort()
	return located
}
