package house

import (
	"cmp"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"muster/internal/drivers"
)

// driversAt is where all drivers stand: a folder for each kind, and in that one for each driver.
const driversAt = "internal/drivers/"

// kindsOfDrivers names all drivers, from the list, by the folder of their kind: a new one is held to these tests from its first
// day.
func kindsOfDrivers() map[string][]string {
	kinds := map[string][]string{"switch": drivers.Switches().Names(), "fabric": drivers.Fabrics().Names()}
	for _, f := range drivers.Power() {
		kinds["power"] = append(kinds["power"], f.Scheme)
	}
	for _, f := range drivers.Substrates() {
		kinds["substrate"] = append(kinds["substrate"], f.Name)
	}
	for _, f := range drivers.Schedulers() {
		kinds["scheduler"] = append(kinds["scheduler"], f.Name)
	}
	return kinds
}

// words of the trade that are a driver's name too: nothing can be told from one alone, but to compare what holds a driver with it
// asks for that driver.
var words = []string{"none", "bridge", "command", "program"}

// leave to name drivers: for values that people write in files, and for words that mean something else there.
var leave = map[string]struct {
	names []string
	why   string
}{
	"internal/drivers/all.go": {nil, "the list"},
	"internal/spec/types.go": {[]string{"local", "metal", "vm", "slurm"},
		"published values of isolation and software.scheduler"},
	"internal/spec/rules.go":           {[]string{"local", "metal", "none"}, "what a file may say, told without a site"},
	"internal/door/external/ask.go":    {[]string{"slurm"}, "asks batch systems that others run"},
	"internal/kinds/person/token.go":   {[]string{"local"}, "the token of the controller's own host"},
	"internal/kinds/kindstest/rows.go": {[]string{"local"}, "machines of tests"},
	"api/v1/access.go":                 {[]string{"local"}, "the token of the controller's own host, as users see it"},
	"internal/rack/rack.go":            {[]string{"ipmi", "redfish", "wol"}, "the virtual rack answers for BMCs, and says where"},
	"internal/rack/rackd/run.go":       {[]string{"ipmi", "redfish", "wol"}, "the same"},
	"internal/kit/private/private.go":  {[]string{"command"}, "the first lines of secrets' files"},
}

// TestNobodyKnowsADriverByItsName: code that writes a driver's name decides something that its declaration should. A text is
// looked at wherever it stands, a constant where something is compared with it.
func TestNobodyKnowsADriverByItsName(t *testing.T) {
	house := house(t)
	constants := house.constants()
	used := map[string]bool{} // path and name of what has leave
	for kind, names := range kindsOfDrivers() {
		for _, name := range names {
			home := house.home(kind, name, constants)
			if home == "" {
				t.Errorf("no folder of %s%s declares the driver %q", driversAt, kind, name)
				continue
			}
			for f := range house.product() {
				if strings.HasPrefix(f.path, home) || strings.HasPrefix(f.path, "images/") {
					continue
				}
				for _, at := range house.named(f, name, constants) {
					used[f.path+" "+name] = true
					if !slices.Contains(leave[f.path].names, name) && !declaredElsewhere(kind, name, f.path) {
						t.Errorf("%s names the %s driver %q: ask for what it can instead", house.set.Position(at), kind, name)
					}
				}
			}
		}
	}
	for file, l := range leave {
		for _, name := range l.names {
			if !used[file+" "+name] {
				t.Errorf("%s does not name %q any more: it needs no leave to", file, name)
			}
		}
	}
}

// declaredElsewhere says that a driver of another kind has the same name, and this file is its own.
func declaredElsewhere(kind, name, file string) bool {
	for other, names := range kindsOfDrivers() {
		if other != kind && slices.Contains(names, name) && strings.HasPrefix(file, driversAt+other+"/") {
			return true
		}
	}
	return false
}

// home is the folder of a driver: that of the file in which a Factory says its name. "": there is none.
func (h *tree) home(kind, name string, constants map[string]string) (folder string) {
	for f := range h.product() {
		if !strings.HasPrefix(f.path, driversAt+kind+"/") || path.Dir(path.Dir(f.path)) != driversAt+kind {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			said, ok := n.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			key, ok := said.Key.(*ast.Ident)
			names := ok && (key.Name == "Name" || key.Name == "Scheme")
			if names && cmp.Or(textOf(said.Value), constants[constantOf(f, said.Value)]) == name {
				folder = path.Dir(f.path) + "/"
			}
			return true
		})
	}
	return folder
}

// constants are the texts that constants of the product stand for, by their package's folder and their name.
func (h *tree) constants() map[string]string {
	all := map[string]string{}
	for f := range h.product() {
		for _, d := range f.syntax.Decls {
			declared, ok := d.(*ast.GenDecl)
			if !ok || declared.Tok != token.CONST {
				continue
			}
			for _, s := range declared.Specs {
				values := s.(*ast.ValueSpec)
				for i, name := range values.Names {
					if i < len(values.Values) && textOf(values.Values[i]) != "" {
						all[path.Dir(f.path)+"."+name.Name] = textOf(values.Values[i])
					}
				}
			}
		}
	}
	return all
}

// constantOf is the folder and the name of what an expression names, as constants has it; "" if it can be no constant.
func constantOf(f file, e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return path.Dir(f.path) + "." + e.Name
	case *ast.SelectorExpr:
		from, ok := e.X.(*ast.Ident)
		for _, i := range f.syntax.Imports {
			folder := strings.TrimPrefix(textOf(i.Path), "muster/")
			if ok && (i.Name == nil && path.Base(folder) == from.Name || i.Name != nil && i.Name.Name == from.Name) {
				return folder + "." + e.Sel.Name
			}
		}
	}
	return ""
}

// published says of a constant, as constants has it, that other packages see it. One that they do not, and whose text is a word
// of the trade, is its own package's word.
func published(constant string) bool {
	return token.IsExported(strings.TrimPrefix(path.Ext(constant), "."))
}

// holdsADriver says of an expression whether what it names holds a driver's name, as network.Switch and c.Scheduler() do.
func holdsADriver(e ast.Expr) bool {
	if call, ok := e.(*ast.CallExpr); ok {
		e = call.Fun
	}
	field, ok := e.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"Switch", "Scheduler", "Substrate", "Driver", "Control", "Scheme"}, field.Sel.Name)
}

// named is where a file names a driver.
func (h *tree) named(f file, name string, constants map[string]string) (at []token.Pos) {
	compared := func(e, with ast.Expr) {
		constant, word := constantOf(f, e), slices.Contains(words, name)
		if constants[constant] == name && (!word || published(constant)) || textOf(e) == name && word && holdsADriver(with) {
			at = append(at, e.Pos())
		}
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				compared(n.X, n.Y)
				compared(n.Y, n.X)
			}
		case *ast.SwitchStmt:
			for _, c := range n.Body.List {
				for _, e := range c.(*ast.CaseClause).List {
					compared(e, n.Tag)
				}
			}
		case *ast.BasicLit:
			text, word := textOf(n), slices.Contains(words, name)
			if text == name && !word || strings.HasPrefix(text, name+":/") || text == name+":" &&
				!slices.Contains(words[:2], name) {
				at = append(at, n.Pos())
			}
		}
		return true
	})
	return at
}

// textOf is what a literal says; "" of anything else.
func textOf(e ast.Expr) string {
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return ""
	}
	text, _ := strconv.Unquote(literal.Value)
	return text
}

// TestNoDriverImportsAnother: what two of them share stands beside them, in a package of its own. A driver's folder is one in
// which something is declared by a Factory. Tests may have two at work together.
func TestNoDriverImportsAnother(t *testing.T) {
	house := house(t)
	constants := house.constants()
	var homes []string
	for kind, names := range kindsOfDrivers() {
		for _, name := range names {
			homes = append(homes, house.home(kind, name, constants))
		}
	}
	for f := range house.product() {
		own := slices.IndexFunc(homes, func(home string) bool { return strings.HasPrefix(f.path, home) })
		if own < 0 {
			continue
		}
		for _, i := range f.syntax.Imports {
			imported := strings.TrimPrefix(textOf(i.Path), "muster/") + "/"
			other := slices.IndexFunc(homes, func(home string) bool { return strings.HasPrefix(imported, home) })
			if other >= 0 && homes[other] != homes[own] {
				t.Errorf("%s imports the driver %s", f.path, homes[other])
			}
		}
	}
}
