package ipmi

import (
	"testing"

	"github.com/bougou/go-ipmi/pkg/command/app"
	"github.com/bougou/go-ipmi/pkg/command/chassis"
	"github.com/bougou/go-ipmi/pkg/types"
)

// FuzzRMCP: what anybody sends us in a BMC's name, and what a BMC may say in a session.
func FuzzRMCP(f *testing.F) {
	f.Add([]byte{})
	f.Add(frame(sessionFlags, 1, 1, make([]byte, 32)))
	f.Add(frame(0x11, 0, 0, []byte{1, 0, 0, 0, 1, 0, 0, 0}))
	f.Add(append(frame(sessionFlags, 7, 1, make([]byte, 17)), make([]byte, 20)...))
	f.Add([]byte{0x81, 0x04, 0x7b, 0x20, 0x08, 0x01, 0x00, 0x01, 0x00, 0x00, 0xd6})
	f.Add([]byte{0x81, 0x04, 0x7b, 0x20, 0x08, 0x09, 0x00, 0x01, 0x05, 0x80, 0, 0, 0, 0, 0xd6})
	s := rmcp{integrity: types.IntegrityAlg_HMAC_SHA256_128, ours: 7, k1: make([]byte, 32), k2: make([]byte, 32)}
	f.Fuzz(func(t *testing.T, data []byte) {
		if message, ok := s.unseal(data); ok {
			t.Errorf("% x was taken for % x", data, message)
		}
		for request, response := range map[types.Request]types.Response{
			&chassis.GetChassisStatusRequest{}:          &chassis.GetChassisStatusResponse{},
			&chassis.GetSystemBootOptionsParamRequest{}: &chassis.GetSystemBootOptionsParamResponse{},
			&chassis.SetSystemBootOptionsParamRequest{}: &chassis.SetSystemBootOptionsParamResponse{},
			&chassis.ChassisControlRequest{}:            &chassis.ChassisControlResponse{},
			&app.SetSessionPrivilegeLevelRequest{}:      &app.SetSessionPrivilegeLevelResponse{},
		} {
			_, answer, ok := parseAnswer(data, request.Command(), 2)
			if ok && response.Unpack(answer) == nil {
				if options, ok := response.(*chassis.GetSystemBootOptionsParamResponse); ok {
					var flags types.BootOptionParam_BootFlags
					if flags.Unpack(options.ParamData) == nil && len(options.ParamData) != 5 {
						t.Errorf("% x are boot flags", options.ParamData)
					}
				}
			}
		}
	})
}
