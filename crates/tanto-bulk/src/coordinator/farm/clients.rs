//! Shows and drains clients.

use tanto_exec::text::table::Table;
use tanto_exec::text::units;

use crate::coordinator::dispatch::RemoteClient;
use crate::coordinator::frontend::Coordinator;

impl Coordinator<'_> {
    /// Gives a client no more leases.
    pub(in crate::coordinator) fn drain(&mut self, name: &str) -> Result<String, String> {
        let named = |live: bool| {
            let is_it = move |client: &RemoteClient| client.name == name && client.is_live() == live;
            self.dispatch.clients().iter().position(is_it)
        };
        let found = named(true).or_else(|| named(false));
        let client = found.ok_or_else(|| format!("there is no client '{name}'"))?;
        self.dispatch.drain(client, true);
        Ok(format!("{name} gets no more packages\n"))
    }

    /// The clients and their state, for the user.
    pub(in crate::coordinator) fn clients_table(&self) -> String {
        let mut table = Table::new(&[1, 2, 3, 4]);
        table.row([b"NAME", b"SLOTS", b"MEMORY FREE", b"PACKAGES", b"SPEED", b"STATUS"]);
        for client in self.dispatch.clients() {
            let status = match () {
                () if !client.is_live() => "lost",
                () if client.is_disabled() => "disabled after repeated machine failures",
                () if client.draining => "draining",
                () => "",
            };
            let numbers = [
                format!("{}/{}", self.dispatch.active_leases(client), client.slots),
                units::memory(client.free.memory_kib),
                client.built.to_string(),
                format!("{:.2}", client.speed() as f64 / 1000.0),
            ];
            let [slots, memory, built, speed] = numbers.each_ref().map(String::as_bytes);
            table.row([client.name.as_bytes(), slots, memory, built, speed, status.as_bytes()]);
        }
        String::from_utf8_lossy(&table.text()).into_owned()
    }
}
