package printable

import "reflect"

// Bound cuts every text below value, which is a pointer, to at most so many bytes, however deep it is: in fields, lists and
// maps, in the latter's keys too. Bytes, and what has a form of its own, stay.
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
			if v.Type().Field(i).IsExported() {
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
