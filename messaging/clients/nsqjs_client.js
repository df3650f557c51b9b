// SPDX-License-Identifier: Apache-2.0
// Does with nsqjs what matrix.py wants of a client: nsqjs_client.js ADDRESS MODE TOPIC.
const nsq = require('nsqjs')

const [address, mode, topic] = process.argv.slice(2)
const options = {
  plain: {},
  TLS: { tls: true, tlsVerification: false },
  AUTH: { authSecret: 'good' },
  compression: { deflate: true },
}[mode]
const [host, port] = address.split(':')

function fail(why) {
  console.log(`failed: ${why}`)
  process.exit(1)
}

const writer = new nsq.Writer(host, Number(port), options)
writer.on('error', fail)
const publish = (call) => new Promise((done) => call((error) => (error ? fail(error) : done())))

writer.on('ready', async () => {
  for (let n = 0; n < 10; n++) await publish((done) => writer.publish(topic, `pub ${n}`, done))
  console.log('PUB ok')
  const batch = ['requeue', 'touch']
  for (let n = 0; n < 8; n++) batch.push(`mpub ${n}`)
  await publish((done) => writer.publish(topic, batch, done))
  console.log('MPUB ok')
  await publish((done) => writer.deferPublish(topic, [Buffer.from('dpub')], 100, done))
  console.log('DPUB ok')
  consume()
})
writer.connect()

function consume() {
  const seen = new Set()
  const reader = new nsq.Reader(topic, 'matrix', { ...options, nsqdTCPAddresses: [address], maxInFlight: 50 })
  reader.on('error', fail)
  reader.on('message', (message) => {
    const body = message.body.toString()
    if (body === 'requeue' && message.attempts === 1) {
      message.requeue(0, false)
      return
    }
    if (body === 'touch') message.touch()
    message.finish()
    seen.add(body)
    if (seen.size === 21) {
      setTimeout(() => {
        console.log('SUB ok\nTOUCH ok')
        process.exit(0)
      }, 100)
    }
  })
  reader.connect()
  setTimeout(() => fail(`received ${seen.size}`), 15000)
}
