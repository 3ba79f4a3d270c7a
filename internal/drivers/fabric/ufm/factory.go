package ufm

import (
	"errors"
	"net/url"

	fabrics "muster/internal/drivers/fabric"
	"muster/internal/drivers/fabric/diags"
	"muster/internal/fabric"
)

// Factory declares the driver of fabrics whose subnet manager is NVIDIA's UFM.
func Factory() fabrics.Factory {
	return fabrics.Factory{
		Name: "ufm",
		Settings: []fabrics.Setting{
			{Name: "url"}, {Name: "user"}, {Name: "password_file"}, {Name: "token_file"}, {Name: "ca_file"}, {Name: "reader"},
			{Name: "options"},
		},
		Open: open,
	}
}

func open(t fabrics.Directives) (fabric.Driver, error) {
	var c Config
	var root bool
	if c.URL, root = t.Value("url"); c.URL == "" {
		return nil, errors.New("it is to be told url, which is where UFM is: https://ufm.example.org")
	}
	c.Elsewhere = !root
	c.User, _ = t.Value("user")
	reader, _ := t.Value("reader")
	options, err := t.Checked("options", diags.CheckOptions)
	if err != nil {
		return nil, err
	}
	if options != "" && reader == "" {
		return nil, errors.New("options are for the programs that read ports, and no reader is named; name a host on the " +
			"fabric, or here")
	}
	if reader != "" {
		if c.Ports, err = diags.Reader(reader, options); err != nil {
			return nil, err
		}
	}
	host := ""
	if u, err := url.Parse(c.URL); err == nil {
		host = u.Hostname()
	}
	if c.Password, err = t.Secret("password_file", host); err != nil {
		return nil, err
	}
	if c.Token, err = t.Secret("token_file", host); err != nil {
		return nil, err
	}
	if c.CA, err = t.Certificates("ca_file"); err != nil {
		return nil, err
	}
	return New(c)
}
