module giusto.dev/messaging

go 1.22
