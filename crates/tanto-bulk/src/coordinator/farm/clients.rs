//! Shows and drains clients.

use tanto_exec::resource_sampler;
use tanto_exec::text::table::Table;

use tanto_exec::text::units::{self, grouped};

use crate::coordinator::dispatch::{ClientIndex, RefusedClient, RemoteClient};
use crate::coordinator::frontend::Coordinator;
use crate::coordinator::status::span;

const HEAD: [&str; 8] = ["NAME", "ROLES", "SLOTS", "MEMORY FREE", "PACKAGES", "SPEED", "SEEN", "STATUS"];

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
        let mut rows = vec![HEAD.map(str::to_owned), self.local_row()];
        rows.extend(self.dispatch.clients().iter().map(|client| self.client_row(client)));
        rows.extend(self.dispatch.refused().map(|client| self.refused_row(client)));
        let mut table = Table::new(&[2, 3, 4, 5]);
        rows.iter().for_each(|row| table.row(row.each_ref().map(String::as_bytes)));
        String::from_utf8_lossy(&table.text()).into_owned()
    }

    fn local_row(&self) -> [String; 8] {
        let is_local = |package: &&u32| matches!(self.current(**package).client, ClientIndex::Local(_));
        let running = self.running.keys().filter(is_local).count();
        let slots = self.dispatch.local.slot_count();
        let free_kib = resource_sampler::machine()().free_kib.unwrap_or(0);
        let status = if self.dispatch.local.is_empty() { "disabled after repeated machine failures" } else { "" };
        [
            "local".to_owned(),
            "all".to_owned(),
            format!("{running}/{slots}"),
            units::memory(free_kib),
            grouped(self.dispatch.local.built()),
            "1.00".to_owned(),
            "now".to_owned(),
            status.to_owned(),
        ]
    }

    fn client_row(&self, client: &RemoteClient) -> [String; 8] {
        let slots = format!("{}/{}", self.dispatch.active_leases(client), client.slots);
        let speed = format!("{:.2}", client.speed() as f64 / 1000.0);
        let live = |text: String| if client.is_live() { text } else { String::new() };
        [
            client.name.clone(),
            client.roles.clone(),
            if client.is_live() { slots } else { "-".to_owned() },
            live(units::memory(client.free.memory_kib)),
            grouped(client.work.built),
            if client.work.built > 0 { speed } else { String::new() },
            seen(self.dispatch.unheard_ms(self.clock.now_ms(), client)),
            self.status_of(client),
        ]
    }

    fn status_of(&self, client: &RemoteClient) -> String {
        match () {
            () if client.distrusted => "distrusted".to_owned(),
            () if client.is_live() && client.is_disabled() => "disabled after repeated machine failures".to_owned(),
            () if client.is_live() && client.draining => "draining".to_owned(),
            () if client.is_live() => String::new(),
            () => match self.dispatch.missing(self.clock.now_ms(), client) {
                (0, _) if client.silent => "lost".to_owned(),
                (0, _) => "left".to_owned(),
                (1, ms) => format!("lost; 1 package restarts in {} unless it returns", span(ms)),
                (packages, ms) => format!("lost; {packages} packages restart in {} unless it returns", span(ms)),
            },
        }
    }

    fn refused_row(&self, client: &RefusedClient) -> [String; 8] {
        [
            client.name.clone(),
            client.roles.clone(),
            format!("0/{}", client.slots),
            units::memory(client.memory_kib),
            "0".to_owned(),
            String::new(),
            seen(self.dispatch.refused_for_ms(self.clock.now_ms(), client)),
            format!("refused: {}", client.why),
        ]
    }
}

/// The time since something, in its largest unit.
fn seen(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        let times = [-1, 1_999, 61_000, 7_200_000, 172_800_000].map(seen);
        assert_eq!(times, ["0s", "1s", "1m", "2h", "2d"]);
    }
}
