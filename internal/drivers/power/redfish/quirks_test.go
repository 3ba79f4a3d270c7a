package redfish_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"muster/internal/drivers/power"
	"muster/internal/drivers/power/powertest"
	"muster/internal/drivers/power/redfish"
)

type vendor struct {
	name    string
	service *bmcService
	refused int // PATCHes that it takes to be understood
}

// vendors are services that behave as those in the table were seen to, and some that no row fits.
func vendors() []vendor {
	return []vendor{
		{"Lenovo SR655, AMI's service, Boot in the settings resource that it does not announce",
			&bmcService{vendor: "Lenovo", product: "AMI Redfish Server", maker: "Lenovo",
				ifMatch: http.StatusPreconditionRequired, settings: systemPath + "/SD"}, 1},
		{"AMI, Boot on the system",
			&bmcService{vendor: "AMI", maker: "ASRockRack", ifMatch: http.StatusPreconditionRequired}, 0},
		{"Dell iDRAC9",
			&bmcService{vendor: "Dell", product: "Integrated Dell Remote Access Controller", maker: "Dell Inc."}, 0},
		{"Dell iDRAC10, Boot in the settings resource",
			&bmcService{vendor: "Dell", product: "Integrated Dell Remote Access Controller", maker: "Dell Inc.",
				settings: systemPath + "/Settings", announced: true}, 1},
		{"Dell iDRAC10, with ETags of compressed answers",
			&bmcService{vendor: "Dell", maker: "Dell Inc.", settings: systemPath + "/Settings", announced: true,
				etagSuffix: "-gzip", ifMatch: http.StatusPreconditionFailed}, 2},
		{"Supermicro",
			&bmcService{vendor: "Supermicro", maker: "Supermicro", forgetsMode: true}, 0},
		{"Supermicro, by its older name",
			&bmcService{maker: "Super Micro Computer, Inc.", forgetsMode: true}, 0},
		{"Lenovo XCC",
			&bmcService{vendor: "Lenovo", maker: "Lenovo", ifMatch: http.StatusPreconditionRequired}, 0},
		{"Huawei iBMC",
			&bmcService{vendor: "Huawei", maker: "Huawei", ifMatch: http.StatusPreconditionFailed}, 0},
		{"xFusion iBMC",
			&bmcService{maker: "XFUSION", ifMatch: http.StatusPreconditionFailed}, 0},
		{"a vendor of no row that asks for the ETag as the standard has it",
			&bmcService{vendor: "Contoso", maker: "Contoso", ifMatch: http.StatusPreconditionRequired}, 1},
		{"a vendor that knows ForceOn only",
			&bmcService{vendor: "Contoso", resetTypes: []string{"ForceOn", "ForceOff"}}, 0},
	}
}

func TestEveryVendorsWayIsGone(t *testing.T) {
	for _, v := range vendors() {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			b := v.service
			b.boot = map[string]string{"BootSourceOverrideMode": "UEFI"}
			b.busyOnRepeat = true
			d := open(t, powertest.Target("", serve(t, "", b), powertest.Secret(t)))
			for range 2 {
				if err := d.On(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			powertest.Becomes(t, d, power.On)
			if err := d.BootFromNetwork(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := b.bootsOnce(); err != nil {
				t.Error(err)
			}
			if b.refused != v.refused {
				t.Errorf("%d PATCHes were refused, not %d: %s", b.refused, v.refused, strings.Join(b.asked, ", "))
			}
			if err := d.Off(t.Context()); err != nil {
				t.Fatal(err)
			}
			powertest.Becomes(t, d, power.Off)
		})
	}
}

func TestEveryQuirkIsTested(t *testing.T) {
	var all strings.Builder
	for _, v := range vendors() {
		fmt.Fprintln(&all, v.service.vendor, v.service.product, v.service.maker)
	}
	for _, words := range redfish.QuirkWords() {
		for _, word := range words {
			if !strings.Contains(strings.ToLower(all.String()), word) {
				t.Errorf("no test has a service of %q", word)
			}
		}
	}
}

func TestAServiceWithoutPXESaysSo(t *testing.T) {
	b := newService()
	b.noPXE = true
	d := open(t, powertest.Target("", serve(t, "", b), powertest.Secret(t)))
	if err := d.BootFromNetwork(t.Context()); !errors.Is(err, power.ErrUnsupported) {
		t.Errorf("%v; it cannot, and has to say so", err)
	}
	b.resetTypes = []string{"GracefulShutdown"}
	b.on = true
	if err := d.Off(t.Context()); !errors.Is(err, power.ErrUnsupported) {
		t.Errorf("%v; a graceful end is none that we may ask for", err)
	}
}
