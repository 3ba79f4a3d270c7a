package printable

import (
	"math"
	"reflect"
	"strconv"
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
		if room := min(most, *left); v.CanSet() && v.Len() > room {
			v.SetString(Cut(v.String(), room))
		}
		*left -= min(v.Len(), *left)
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

// shorten takes away what a list or map has above so many entries.
func shorten(v reflect.Value, entries int) {
	if v.Len() <= entries {
		return
	}
	if v.Kind() == reflect.Slice {
		v.SetLen(entries)
		return
	}
	for _, key := range v.MapKeys()[entries:] {
		v.SetMapIndex(key, reflect.Value{})
	}
}
