package api

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	apiv1 "muster/api/v1"
	"muster/internal/access"
	"muster/internal/kinds"
	"muster/internal/price"
	"muster/internal/protocol"
)

// words are those that fields of the API may hold, from who knows them: by what a field's tag "words" asks for. A kind or a
// driver that is registered is in the API's document by that alone.
func (d Drivers) words() map[string][]string {
	all := map[string][]string{"switches": d.Switches.Names(), "enrolled substrates": {}}
	for _, f := range d.enrolled() {
		all["enrolled substrates"] = append(all["enrolled substrates"], f.Name)
	}
	for _, k := range kinds.All() {
		if k.Lives() {
			all[string(k.Kind)+" phases"] = append(texts(k.Phases), string(k.End))
		}
	}
	return all
}

// wordsOfTypes are those of fields whose type has no others, wherever it stands.
func wordsOfTypes() map[reflect.Type][]string {
	return map[reflect.Type][]string{
		typeOf[apiv1.Role]():           texts(access.Roles()),
		typeOf[apiv1.Scope]():          texts(access.Scopes()),
		typeOf[apiv1.UsageKind]():      texts(price.Kinds()),
		typeOf[apiv1.NodeRole]():       texts(protocol.Roles()),
		typeOf[apiv1.Quantity]():       texts(protocol.Quantities()),
		typeOf[apiv1.SchedulerState](): texts(protocol.States()),
	}
}

func texts[T ~string](words []T) []string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = string(w)
	}
	return all
}

// enumerate has the fields of schemas hold the words that there are, and no others. An error is a mistake of the program: a field
// asks for words that there are none of.
func (d Drivers) enumerate(schemas huma.Registry) error {
	asked, typed := d.words(), wordsOfTypes()
	for name, schema := range schemas.Map() {
		t := schemas.TypeFromRef("#/components/schemas/" + name)
		if t == nil || t.Kind() != reflect.Struct {
			continue
		}
		for _, field := range reflect.VisibleFields(t) {
			words, known := typed[field.Type]
			if ask, asks := field.Tag.Lookup("words"); asks {
				if words, known = asked[ask]; !known {
					return fmt.Errorf("%s.%s may hold %s, and there are none", t, field.Name, ask)
				}
			}
			key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if property := schema.Properties[key]; known && property != nil {
				property.Enum = each(words, func(w string) any { return w })
				property.PrecomputeMessages()
			}
		}
	}
	return nil
}
