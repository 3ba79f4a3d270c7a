package serve

import (
	"context"
	"errors"
	"net"

	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/door/gateway"
	"muster/internal/kinds/cluster"
	"muster/internal/kit/space"
)

// waysIn are where people come in to the gateway: from terminals of browsers and, if it has a port, by SSH.
func (k *controller) waysIn(terminals net.Listener) []net.Listener {
	if k.ssh == nil {
		return []net.Listener{terminals}
	}
	return []net.Listener{terminals, k.gate(k.ssh, k.budget.SSHLimits())}
}

// gateway is the SSH door of this controller.
func (k *controller) gateway() *gateway.Gateway {
	hosts := []string{"localhost", k.host}
	if host, _, err := net.SplitHostPort(k.sshAddress()); err == nil {
		hosts = append(hosts, host)
	}
	return &gateway.Gateway{
		Name: k.owner, Hosts: hosts, DB: k.db, Authority: k.authority,
		Sources: []gateway.Source{gateway.Clusters{Authority: k.authority, Dialer: k.shared},
			gateway.ExternalClusters{Authority: k.authority}},
		Resume: k.resume, Recordings: k.dir.Recordings(), Reserve: k.admission.Catalogue.Reserve,
		Log: k.Log, Telemetry: k.telemetry, Limits: gateway.UsualLimits(),
	}
}

// disk is that of the data directory.
func (k *controller) disk() (space.Disk, error) {
	return space.On(k.Data, k.admission.Catalogue.Reserve)
}

// sshAddress is host:port by which people reach the gateway; "" if there is none.
func (k *controller) sshAddress() string {
	if k.ssh == nil {
		return ""
	}
	return gateway.Address(k.ssh.Addr().String(), k.SSHName)
}

// resume brings a paused cluster back for somebody who logs in, as the API does.
func (k *controller) resume(ctx context.Context, clusterID, person string) error {
	err := k.db.Update(ctx, func(tx *core.Tx) error {
		if err := cluster.Lock(ctx, tx, clusterID); err != nil {
			return err
		}
		c, err := cluster.Get(ctx, tx, clusterID)
		if err != nil {
			return err
		}
		plan, err := k.admission.Resume(ctx, tx, c)
		if err != nil || c.Desired == core.Present {
			return err
		}
		_, err = k.admission.CarryOutResume(ctx, tx, plan, person+", who logs in")
		return err
	})
	var refused *admission.Refusal
	if errors.As(err, &refused) {
		return &gateway.Refusal{Text: refused.Error()}
	}
	return err
}
