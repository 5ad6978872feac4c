//! Samples and the machine as JSON.

use serde::Deserialize;
use serde_json::{Value, json};
use tanto_sys::machine::affinity::CpuMask;
use tanto_sys::machine::info::MachineInfo;

/// A `Duration` as seconds.
pub mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        time.as_secs_f64().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// The same, or null.
pub mod optional_seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub fn serialize<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        time.map(|time| time.as_secs_f64()).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let seconds = Option::<f64>::deserialize(deserializer)?;
        seconds.map(Duration::try_from_secs_f64).transpose().map_err(D::Error::custom)
    }
}

/// Encodes a machine and the processors that were used.
pub fn machine(machine: &MachineInfo, cpus: &CpuMask) -> Value {
    json!({
        "model": machine.model,
        "processors": machine.processors,
        "memory_kib": machine.memory_kib,
        "kernel": machine.kernel,
        "virtual": machine.is_virtual,
        "cpus": cpus.to_string(),
    })
}

/// Decodes a field of an object; `None` if it is missing or has another type.
pub fn field<'v, T: Deserialize<'v>>(object: &'v Value, name: &str) -> Option<T> {
    T::deserialize(object.get(name)?).ok()
}

/// Decodes the value of `machine`.
pub fn read_machine(value: &Value) -> Option<(MachineInfo, CpuMask)> {
    let machine = MachineInfo {
        model: field(value, "model")?,
        processors: field(value, "processors")?,
        memory_kib: field(value, "memory_kib")?,
        kernel: field(value, "kernel")?,
        is_virtual: field(value, "virtual")?,
    };
    Some((machine, CpuMask::parse(field::<String>(value, "cpus")?.as_bytes())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use crate::measure::{Sample, fake};

    #[test]
    fn samples_and_machines_round_trip() {
        let mut full = fake::sample(1.5);
        full.pressure.io = Some(Duration::from_millis(250));
        full.conditions.frequency_mhz = Some(3000);
        full.conditions.settled = Some(true);
        full.conditions.governor = Some("performance".into());
        for sample in [full, fake::sample(0.125)] {
            let text = json!(sample).to_string();
            assert_eq!(serde_json::from_str::<Sample>(&text).expect("JSON"), sample);
            let negative = text.replace("\"wall_s\":", "\"wall_s\":-");
            assert!(serde_json::from_str::<Sample>(&negative).is_err());
        }
        let mask = CpuMask::parse(b"0-1").expect("a mask");
        let ours = (MachineInfo::query(), mask);
        assert_eq!(read_machine(&machine(&ours.0, &ours.1)), Some(ours));
    }
}
