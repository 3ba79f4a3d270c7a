package printable

import (
	"math"
	"reflect"
	"strconv"
	"strings"
)

// Bound cuts every text below value, which is a pointer, to at most so many bytes, however deep it is: in fields, lists and
// maps, in the latter's keys too. A list or map of a field with the tag `most:"64"` keeps that many entries: the first of a list,
// any of a map. All texts below a field with the tag `bytes:"4096"` have that many bytes together: those that come after are
// empty; and one that is such a field may be that long itself. Bytes, and what has a form of its own, stay.
func Bound(value any, most int) {
	left := math.MaxInt
	bound(reflect.ValueOf(value), most, &left)
}

// bound leaves in left how many bytes of texts may follow.
func bound(v reflect.Value, most int, left *int) {
	switch v.Kind() {
	case reflect.String:
		text := strings.Map(plain, v.String())
		if room := min(most, *left); len(text) > room {
			text = Cut(text, room)
		}
		text = Cut(text, within(text, *left))
		if v.CanSet() && text != v.String() {
			v.SetString(text)
		}
		*left -= min(inJSON(text), *left)
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			bound(v.Elem(), most, left)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				if entries, err := strconv.Atoi(field.Tag.Get("most")); err == nil {
					shorten(v.Field(i), entries)
				}
				room, each := *left, most
				if bytes, err := strconv.Atoi(field.Tag.Get("bytes")); err == nil {
					if room = min(room, bytes); v.Field(i).Kind() == reflect.String {
						each = bytes
					}
				}
				before := room
				bound(v.Field(i), each, &room)
				*left -= before - room
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			bound(v.Index(i), most, left)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			short, value := reflect.New(key.Type()).Elem(), reflect.New(v.Type().Elem()).Elem()
			short.Set(key)
			value.Set(v.MapIndex(key))
			bound(short, most, left)
			bound(value, most, left)
			v.SetMapIndex(key, reflect.Value{})
			v.SetMapIndex(short, value)
		}
	}
}

// plain is a character that a database takes and JSON does not make longer: control characters are blanks.
func plain(r rune) rune {
	if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r == 0x2028 || r == 0x2029 {
		return ' '
	}
	return r
}

// longest is how many bytes one of a text has in JSON at most, as in \u003c.
const longest = 6

// inJSON is how many bytes a text has in JSON, at most.
func inJSON(text string) (n int) {
	for i := range len(text) {
		switch text[i] {
		case '<', '>', '&':
			n += longest
		case '"', '\\', '\n', '\t':
			n += 2
		default:
			n++
		}
	}
	return n
}

// within is how many bytes of a text are so many in JSON.
func within(text string, room int) int {
	if longest*len(text) <= room {
		return len(text)
	}
	for i := range len(text) {
		if room -= inJSON(text[i : i+1]); room < 0 {
			return i
		}
	}
	return len(text)
}

// shorten takes away what a list or map has above so many entries.
func shorten(v reflect.Value, entries int) {
	if v.Len() <= entries {
		return
	}
	if v.Kind() == reflect.Slice {
		v.Set(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, entries), v.Slice(0, entries))) // the rest takes room no more
		return
	}
	for _, key := range v.MapKeys()[entries:] {
		v.SetMapIndex(key, reflect.Value{})
	}
}
