//! Samples and the machine as JSON.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tanto_sys::machine::affinity::CpuMask;
use tanto_sys::machine::info::MachineInfo;

use super::conditions::Conditions;
use super::{Pressure, Sample};

/// Encodes a sample; the caller may add fields.
pub fn object(sample: &Sample) -> Map<String, Value> {
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    let (pressure, conditions) = (&sample.pressure, &sample.conditions);
    let value = json!({
        "wall_s": sample.wall.as_secs_f64(),
        "user_s": sample.user.as_secs_f64(),
        "system_s": sample.system.as_secs_f64(),
        "peak_memory_bytes": sample.peak_memory,
        "io_wait_s": sample.io_wait.as_secs_f64(),
        "pressure": {
            "cpu_s": seconds(pressure.cpu),
            "memory_s": seconds(pressure.memory),
            "io_s": seconds(pressure.io),
        },
        "conditions": {
            "processors": conditions.processors,
            "frequency_mhz": conditions.frequency_mhz,
            "governor": conditions.governor,
            "load": conditions.load,
            "background": conditions.background,
            "steal": conditions.steal,
            "leftover_processes": conditions.leftover_processes,
            "settled": conditions.settled,
        },
    });
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// Decodes a sample.
pub fn sample(value: &Value) -> Option<Sample> {
    let time = |value: &Value| Duration::try_from_secs_f64(value.as_f64()?).ok();
    let (pressure, conditions) = (&value["pressure"], &value["conditions"]);
    Some(Sample {
        wall: time(&value["wall_s"]).filter(|wall| !wall.is_zero())?,
        user: time(&value["user_s"])?,
        system: time(&value["system_s"])?,
        peak_memory: value["peak_memory_bytes"].as_u64(),
        io_wait: time(&value["io_wait_s"])?,
        pressure: Pressure {
            cpu: time(&pressure["cpu_s"]),
            memory: time(&pressure["memory_s"]),
            io: time(&pressure["io_s"]),
        },
        conditions: Conditions {
            processors: count(&conditions["processors"])?,
            frequency_mhz: conditions["frequency_mhz"].as_u64(),
            governor: conditions["governor"].as_str().map(str::to_owned),
            load: conditions["load"].as_f64()?,
            background: conditions["background"].as_f64(),
            steal: conditions["steal"].as_f64(),
            leftover_processes: count(&conditions["leftover_processes"])?,
            settled: conditions["settled"].as_bool(),
        },
    })
}

fn count(value: &Value) -> Option<usize> {
    usize::try_from(value.as_u64()?).ok()
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

/// Decodes the value of `machine`.
pub fn read_machine(value: &Value) -> Option<(MachineInfo, CpuMask)> {
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    let machine = MachineInfo {
        model: text("model")?,
        processors: count(&value["processors"])?,
        memory_kib: value["memory_kib"].as_u64()?,
        kernel: text("kernel")?,
        is_virtual: value["virtual"].as_bool()?,
    };
    Some((machine, CpuMask::parse(text("cpus")?.as_bytes())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::fake;

    #[test]
    fn samples_and_machines_round_trip() {
        let mut full = fake::sample(1.5);
        full.pressure.io = Some(Duration::from_millis(250));
        full.conditions.frequency_mhz = Some(3000);
        full.conditions.settled = Some(true);
        full.conditions.governor = Some("performance".into());
        for sample in [full, fake::sample(0.125)] {
            let text = Value::Object(object(&sample)).to_string();
            let value = serde_json::from_str(&text).expect("JSON");
            assert_eq!(super::sample(&value), Some(sample));
        }
        assert_eq!(sample(&json!({"wall_s": -1})), None);
        assert_eq!(sample(&json!([])), None);
        let mask = CpuMask::parse(b"0-1").expect("a mask");
        let ours = (MachineInfo::query(), mask);
        assert_eq!(read_machine(&machine(&ours.0, &ours.1)), Some(ours));
    }
}
