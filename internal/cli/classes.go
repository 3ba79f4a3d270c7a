package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
)

func (a *app) classes() *cobra.Command {
	c := &cobra.Command{
		Use:   "classes",
		Short: "List the site's classes of machines",
		Long: `List the classes that a cluster file may name: which machines each has by their facts, what a node of it costs, how many
machines it has and how many of them are free now.`,
		Example: `  muster classes`,
		Args:    cobra.NoArgs,
	}
	return listing(a, c, apiv1.ListClasses, &apiv1.Page{}, func(classes []apiv1.Class) {
		t := newTable("NAME", "FREE", "MACHINES", "PRICE/H", "SELECT", "DEFAULT OF")
		for _, class := range classes {
			t.row(class.Name, strconv.Itoa(class.Free), strconv.Itoa(class.Machines), class.Price,
				strings.Join(class.Select, ", "), class.Default)
		}
		t.print(a.out)
	})
}
