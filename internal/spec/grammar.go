package spec

import (
	"cmp"
	"strings"
)

// node is a field with its place in the tree of fields.
type node struct {
	Field
	kind
	key    string  // the last step of its path
	fields []*node // of a mapping, in the order of the table
	item   *node   // of a list, or the values of a mapping with free keys
	keys   kind    // of the free keys that have these values
}

// grammar is the tree that the table of fields spells out. It is never written to.
var grammar = plant(table, kinds)

// plant grows the tree. A row comes after the row of its parent, which a test holds the table to.
func plant(rows []Field, kinds map[string]kind) *node {
	root := &node{kind: kinds["mapping"]}
	byPath := map[string]*node{"": root}
	for _, row := range rows {
		parent, key := splitPattern(row.Path)
		n := &node{Field: row, kind: kinds[row.Type], key: key, keys: kinds[cmp.Or(row.Keys, "name")]}
		if up := byPath[parent]; key == "[]" || key == "*" {
			up.item = n
		} else {
			up.fields = append(up.fields, n)
		}
		byPath[row.Path] = n
	}
	return root
}

// splitPattern takes the last step off a path pattern: "queues[].name" → "queues[]", "name"; "queues[]" → "queues", "[]".
func splitPattern(pattern string) (parent, key string) {
	if list, ok := strings.CutSuffix(pattern, "[]"); ok {
		return list, "[]"
	}
	if i := strings.LastIndexByte(pattern, '.'); i >= 0 {
		return pattern[:i], pattern[i+1:]
	}
	return "", pattern
}

// field finds a mapping's field, nil if it has none of that name.
func (n *node) field(key string) *node {
	for _, f := range n.fields {
		if f.key == key {
			return f
		}
	}
	return nil
}

// keyed says whether the node is a list of mappings, whose entries are told apart by their first field.
func (n *node) keyed() bool { return n.item != nil && len(n.item.fields) > 0 }

// identity is the field that tells the entries of a keyed list apart: a queue's name, a storage's mount.
func (n *node) identity() string { return n.item.fields[0].key }
