module perigee/golden

go 1.25.0

require github.com/twmb/franz-go/pkg/kmsg v1.13.1
