package printable

import (
	"reflect"
	"strconv"
)

// Bound cuts every text below value, which is a pointer, to at most so many bytes, however deep it is: in fields, lists and
// maps, in the latter's keys too. A list or map of a field with the tag `most:"64"` keeps that many entries: the first of a list,
// any of a map. Bytes, and what has a form of its own, stay.
func Bound(value any, most int) { bound(reflect.ValueOf(value), most) }

func bound(v reflect.Value, most int) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() && v.Len() > most {
			v.SetString(Cut(v.String(), most))
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			bound(v.Elem(), most)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				if entries, err := strconv.Atoi(field.Tag.Get("most")); err == nil {
					shorten(v.Field(i), entries)
				}
				bound(v.Field(i), most)
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			bound(v.Index(i), most)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			oldKey, value := key, reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(key))
			bound(value, most)
			if key.Kind() == reflect.String && key.Len() > most {
				key = reflect.New(key.Type()).Elem()
				key.SetString(Cut(oldKey.String(), most))
				v.SetMapIndex(oldKey, reflect.Value{})
			}
			v.SetMapIndex(key, value)
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
