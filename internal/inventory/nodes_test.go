package inventory

import (
	"reflect"
	"testing"
)

func TestASiteOpensMoreOfItsKernelOnlyWhereItSaysSo(t *testing.T) {
	for text, want := range map[string]Nodes{
		"": {}, "nodes: {perf: true}": {Perf: true}, "nodes: {setuid: false}": {Setuid: new(bool)},
		"nodes: {user_namespaces: true, io_uring: true}": {UserNamespaces: true, IOUring: true},
	} {
		c, err := parseCatalogue([]byte(builtin + text))
		if err != nil || !reflect.DeepEqual(c.Nodes, want) {
			t.Errorf("%q: %+v %v", text, c.Nodes, err)
		}
	}
	if _, err := parseCatalogue([]byte(builtin + "nodes: {perv: true}")); err == nil {
		t.Error("a switch that does not exist is accepted")
	}
}
