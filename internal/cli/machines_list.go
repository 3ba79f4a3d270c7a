package cli

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	apiv1 "muster/api/v1"
	"muster/internal/kit/pattern"
)

// columns of a list of machines; the first three must be there.
func columns() []string {
	return []string{"name", "macs", "power", "network", "credentials", "ports", "rack", "unit", "height", "slot"}
}

// machineList is a list of machines with the place of each field in its file.
type machineList struct {
	file     string
	machines []apiv1.NewMachine
	places   []map[string]listed // column → of the machine at the same index
}

// listed is a field of a list: where it begins, from 1, and its text.
type listed struct {
	line, column int
	text         string
}

// word is the column at which the n-th word of a listed begins.
func (c listed) word(n int) int {
	at := 0
	for i, word := range strings.Fields(c.text) {
		at += strings.Index(c.text[at:], word)
		if i == n {
			return c.column + utf8.RuneCountInString(c.text[:at])
		}
		at += len(word)
	}
	return c.column
}

// readMachines reads a list of machines as people and spreadsheets write it. Errors say the line and the column.
func readMachines(file string, text []byte) (list machineList, err error) {
	list.file = file
	if text, err = plainList(file, text); err != nil {
		return list, err
	}
	reader := csv.NewReader(bytes.NewReader(text))
	reader.TrimLeadingSpace, reader.Comment, reader.Comma = true, '#', separator(text)
	header, err := reader.Read()
	if errors.Is(err, io.EOF) {
		return list, usage("%s: is empty; its first line must name the columns: %s", file, strings.Join(columns(), ","))
	}
	if err != nil {
		return list, badList(file, err)
	}
	for i, name := range header {
		name = strings.ToLower(strings.TrimSpace(name))
		if name != "" && (slices.Contains(header[:i], name) || !slices.Contains(columns(), name)) {
			line, column := reader.FieldPos(i)
			return list, usage("%s:%d:%d: %q is no column, or is there twice; the columns are %s", file, line, column, name,
				strings.Join(columns(), ","))
		}
		header[i] = name
	}
	for _, needed := range columns()[:3] {
		if !slices.Contains(header, needed) {
			return list, usage("%s:1: column %s is missing; the columns are %s", file, needed, strings.Join(columns(), ","))
		}
	}
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return list, badList(file, err)
		}
		if strings.TrimSpace(strings.Join(record, "")) == "" {
			continue // a row that has been emptied
		}
		cells := map[string]listed{}
		for i, text := range record {
			c := listed{text: text}
			c.line, c.column = reader.FieldPos(i)
			if header[i] == "" && strings.TrimSpace(text) != "" {
				return list, usage("%s:%d:%d: %q is in a column without a name", file, c.line, c.column, text)
			}
			cells[header[i]] = c
		}
		field := func(name string) string { return strings.TrimSpace(cells[name].text) }
		for _, needed := range columns()[:3] {
			if c := cells[needed]; field(needed) == "" {
				return list, usage("%s:%d:%d: %s is missing", file, c.line, c.column, needed)
			}
		}
		at, err := locationIn(file, cells)
		if err != nil {
			return list, err
		}
		list.places = append(list.places, cells)
		list.machines = append(list.machines, apiv1.NewMachine{Name: field("name"), MACs: strings.Fields(field("macs")),
			Network: field("network"), Power: field("power"), Credentials: field("credentials"),
			Ports: strings.Fields(field("ports")), Location: at})
	}
	if len(list.machines) == 0 {
		return list, usage("%s: lists no machine", file)
	}
	return list, nil
}

// locationIn is where a machine of a list stands; nil where that says nothing of it.
func locationIn(file string, cells map[string]listed) (*apiv1.Location, error) {
	at := apiv1.Location{Rack: strings.TrimSpace(cells["rack"].text)}
	for _, number := range []struct {
		name string
		to   *int
	}{{"unit", &at.Unit}, {"height", &at.Height}, {"slot", &at.Slot}} {
		c := cells[number.name]
		text := strings.TrimSpace(c.text)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		switch {
		case err != nil:
			return nil, usage("%s:%d:%d: %s %q is not a number", file, c.line, c.column, number.name, text)
		case at.Rack == "":
			return nil, usage("%s:%d:%d: %s %d of no rack: name the rack, too", file, c.line, c.column, number.name, n)
		}
		*number.to = n
	}
	if at.Rack == "" {
		return nil, nil
	}
	return &at, nil
}

// plainList is a list without what spreadsheets add to the text: a byte order mark, other ends of lines, and a line that names
// the separator, which stays as an empty one.
func plainList(file string, text []byte) ([]byte, error) {
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return nil, usage("%s: is UTF-16; save it as CSV in UTF-8", file)
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	if first, rest, _ := bytes.Cut(text, []byte("\n")); bytes.HasPrefix(bytes.Trim(first, `"`), []byte("sep=")) {
		text = append([]byte("\n"), rest...)
	}
	if line := notUTF8(text); line > 0 {
		return nil, usage("%s:%d: is not UTF-8; save it as CSV in UTF-8", file, line)
	}
	return text, nil
}

// separator is what separates the columns: a comma, or else what the line that names them has. No column's name holds one.
func separator(text []byte) rune {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] == '#' {
			continue
		}
		for _, other := range ";\t" {
			if !bytes.ContainsRune(line, ',') && bytes.ContainsRune(line, other) {
				return other
			}
		}
		break
	}
	return ','
}

func badList(file string, err error) error {
	if parse, is := errors.AsType[*csv.ParseError](err); is {
		return usage("%s:%d:%d: %v", file, parse.Line, parse.Column, parse.Err)
	}
	return fmt.Errorf("%s: %w", file, err)
}

// Where the controller finds something wrong, and how it names other machines of the list.
var (
	atMachine    = pattern.New(`^(?:body\.)?machines\[(\d+)\](?:\.(?:location\.)?([a-z]+)(?:\[(\d+)\])?)?`)
	namedMachine = pattern.New(`machines\[(\d+)\]`)
)

// place gives what the controller finds wrong with a list its places in the file, and its machines their names. The controller
// was sent the machines alone.
func (l machineList) place(err error) error {
	var told *problemError
	if !errors.As(err, &told) {
		return err
	}
	for i := range told.Errors {
		d := &told.Errors[i]
		found := atMachine.FindStringSubmatch(d.Path)
		if found == nil {
			continue
		}
		n, err := strconv.Atoi(found[1])
		if err != nil || n >= len(l.places) {
			continue
		}
		c, ok := l.places[n][found[2]]
		if !ok {
			c = l.places[n]["name"]
		}
		word, _ := strconv.Atoi(found[3]) // none is the first
		d.File, d.Line, d.Col, d.Path = l.file, c.line, c.word(word), l.machines[n].Name
		d.Text = namedMachine.Regexp().ReplaceAllStringFunc(d.Text, func(text string) string {
			if n, err := strconv.Atoi(namedMachine.FindStringSubmatch(text)[1]); err == nil && n < len(l.machines) {
				return l.machines[n].Name + " in line " + strconv.Itoa(l.places[n]["name"].line)
			}
			return text
		})
	}
	return err
}
