package controller

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"muster/internal/fabric"
	"muster/internal/fabric/infiniband"
	"muster/internal/fabric/ufm"
	"muster/internal/store"
)

// fabrics opens the drivers of fabrics from their rows, and keeps each for as long as what it is told stays the same. It is
// lifecycle.Fabrics.
type fabrics struct {
	scratch string // where drivers may keep what nobody misses

	mu   sync.Mutex
	open map[string]opened // by the fabric's ID
}

type opened struct {
	told   string
	driver fabric.Driver
}

func newFabrics(scratch string) *fabrics {
	return &fabrics{scratch: scratch, open: map[string]opened{}}
}

// openers are the drivers that there are.
func openers() map[string]func(scratch string, f store.Fabric) (fabric.Driver, error) {
	return map[string]func(string, store.Fabric) (fabric.Driver, error){
		"opensm": openOpenSM,
		"ufm":    openUFM,
	}
}

// Driver is that of a fabric as it stands in its row.
func (o *fabrics) Driver(f store.Fabric) (fabric.Driver, error) {
	told, err := json.Marshal([]any{f.Driver, f.Config, f.Managers})
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if is, there := o.open[f.ID]; there && is.told == string(told) {
		return is.driver, nil
	}
	driver, err := o.opened(f)
	if err == nil {
		o.open[f.ID] = opened{string(told), driver}
	}
	return driver, err
}

func (o *fabrics) opened(f store.Fabric) (fabric.Driver, error) {
	open, known := openers()[f.Driver]
	if !known {
		return nil, fmt.Errorf("there is no driver %q; there are %s", f.Driver, strings.Join(slices.Sorted(maps.Keys(openers())), ", "))
	}
	driver, err := open(o.scratch, f)
	if err != nil {
		return nil, fmt.Errorf("driver %s: %w", f.Driver, err)
	}
	return driver, nil
}

// check says what is wrong with what a fabric's driver is told, before there is a row.
func (o *fabrics) check(f store.Fabric) error {
	_, err := o.opened(f)
	return err
}

// told reads what a driver is told, and refuses what it does not know.
func told(config map[string]string, known map[string]*string) error {
	paths := map[string]bool{"partitions": true, "log": true, "password_file": true, "token_file": true, "ca_file": true}
	for name, value := range config {
		to, is := known[name]
		if !is {
			return fmt.Errorf("it knows no %q; it is told %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		if paths[name] && !strings.HasPrefix(value, "/") {
			return fmt.Errorf("%s %q is not a whole path; say where the file is from / on, on the host that has it", name, value)
		}
		*to = value
	}
	return nil
}

// openOpenSM is a fabric whose subnet managers are opensm processes, here or where ssh leads.
func openOpenSM(scratch string, f store.Fabric) (fabric.Driver, error) {
	var s infiniband.Site
	err := told(f.Config, map[string]*string{
		"hosts": &s.Hosts, "partitions": &s.File, "log": &s.Log, "signal": &s.Signal, "options": &s.Options,
	})
	if err != nil {
		return nil, err
	}
	return infiniband.Open(scratch, f.Managers, s)
}

// openUFM is a fabric whose subnet manager is NVIDIA's UFM.
func openUFM(_ string, f store.Fabric) (fabric.Driver, error) {
	var c ufm.Config
	var reader, options string
	err := told(f.Config, map[string]*string{
		"url": &c.URL, "user": &c.User, "password_file": &c.PasswordFile, "token_file": &c.TokenFile, "ca_file": &c.CAFile,
		"reader": &reader, "options": &options,
	})
	if err != nil {
		return nil, err
	}
	if c.URL == "" {
		return nil, errors.New("it is to be told url, which is where UFM is: https://ufm.example.org")
	}
	if options != "" && reader == "" {
		return nil, errors.New("options are for the programs that read ports, and no reader is named; name a host on the fabric, or here")
	}
	if reader != "" {
		if c.Ports, err = infiniband.Reader(reader, options); err != nil {
			return nil, err
		}
	}
	return ufm.New(c)
}
